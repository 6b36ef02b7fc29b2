"""`gatehouse skills`: what an operator sees."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli import app
from service.errors import SkillFault
from tests.skills.writing import write_skill


@pytest.fixture(autouse=True)
def away_from_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_list_shows_each_skill_with_what_it_may_read_and_what_is_broken() -> None:
    web = {"allowed": True, "domains": ["example.org"]}
    write_skill(Path("skills"), "clocks", sources=["rules"], kinds=[], web=web)
    write_skill(Path("skills"), "broken", yaml_text="a: 1\na: 2\n")
    result = CliRunner().invoke(app, ["skills", "list"])
    assert result.exit_code == 0
    assert "reads sources: rules; kinds: nothing; web: example.org" in result.output
    assert "skill broken is not usable: skill.yaml: line 2" in result.output


def test_list_as_json_is_one_object_per_line() -> None:
    write_skill(Path("skills"), "one")
    write_skill(Path("skills"), "two", sources=["b", "a"])
    lines = CliRunner().invoke(app, ["skills", "list", "--json"]).stdout.splitlines()
    found = [json.loads(line) for line in lines]
    assert [(one["name"], one["sources"], one["web"]) for one in found] == [("one", "all", []), ("two", ["a", "b"], [])]


def test_validate_ends_with_a_fault_when_one_is_broken_and_names_every_one() -> None:
    write_skill(Path("skills"), "good", sources=["rulez"])
    write_skill(Path("skills"), "bad", web={"allowed": 1})
    write_skill(Path("skills"), "worse", sources=None)
    result = CliRunner().invoke(app, ["skills", "validate"])
    assert isinstance(result.exception, SkillFault)
    assert str(result.exception) == "2 skill(s) are not usable; 1 are."
    assert "skill good is usable" in result.output
    assert "the source 'rulez', named by good, was never ingested" in result.output
    assert "skill bad is not usable: skill.yaml: web.allowed" in result.output
    assert "skill worse is not usable: skill.yaml: sources is missing" in result.output


def test_validate_takes_another_folder_and_is_content_when_all_are_usable() -> None:
    write_skill(Path("elsewhere"), "good")
    assert CliRunner().invoke(app, ["skills", "validate", "elsewhere"]).exit_code == 0


def test_a_folder_that_was_named_and_is_missing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert CliRunner().invoke(app, ["skills", "list"]).exit_code == 0
    monkeypatch.setenv("SKILLS_DIR", "nowhere")
    result = CliRunner().invoke(app, ["skills", "list"])
    assert isinstance(result.exception, SkillFault)
    assert "SKILLS_DIR" in str(result.exception)


def test_new_makes_a_skill_that_validates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLS_DIR", "mine")
    made = CliRunner().invoke(app, ["skills", "new", "first"])
    assert made.exit_code == 0
    assert "gatehouse skills validate" in made.output
    assert CliRunner().invoke(app, ["skills", "validate"]).exit_code == 0


def test_a_skills_folder_cannot_steer_the_terminal_or_forge_a_line() -> None:
    write_skill(Path("skills"), "good")
    Path("skills/a\x1b]0;x\x07\nskill b is usable\u202e").mkdir()
    for words in (["list"], ["list", "--json"], ["validate"]):
        output = CliRunner().invoke(app, ["skills", *words]).output
        assert all(character.isprintable() or character == "\n" for character in output)
        assert r"a\x1b]0;x\x07\nskill b" in output
        assert not [line for line in output.splitlines() if line.startswith("skill b")]
