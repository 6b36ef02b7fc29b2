"""The five skills that ship, and the one that `gatehouse skills new` begins."""

from pathlib import Path

import pytest

from service.errors import SkillFault
from service.sample import SAMPLE
from service.skills.folder import read_skill
from service.skills.manifest import GatesBlock, Manifest, checked
from service.skills.registry import Skills
from service.skills.report import doubts
from service.skills.strict_yaml import load_mapping
from service.skills.template import write_new

FOLDER = Path(__file__).parent.parent.parent / "skills"
NAMES = ["cdd-checklist", "client-money", "complaint-timeline", "market-abuse-triage", "plain-summary"]


def test_five_skills_ship_and_each_is_usable() -> None:
    shipped = Skills.load(FOLDER)
    assert ([one.name for one in shipped], shipped.broken) == (NAMES, ())


def test_what_they_may_read_is_what_the_sample_holds() -> None:
    sample = {source.name for source in SAMPLE}
    shipped = Skills.load(FOLDER)
    assert doubts(shipped, sample.__contains__) == []
    assert all(one.scope.sources is not None for one in shipped)


def test_what_goes_to_a_client_or_an_authority_rests_on_official_text_and_is_checked_first() -> None:
    for name in ("market-abuse-triage", "plain-summary"):
        one = Skills.load(FOLDER).get(name)
        assert (one.scope.kinds, one.scope.web) == (frozenset({"official"}), False)
        assert (one.gates.delivery, one.gates.on_ungrounded) == ("verified", "refuse")


def test_the_example_of_the_readme_is_valid() -> None:
    readme = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    example = readme.split("```yaml\n")[1].split("```")[0]
    declared = checked(Manifest, load_mapping(example))
    assert declared.gates.model_fields_set == GatesBlock.model_fields.keys()
    assert all(f"`{name}`" in readme for name in NAMES)


def test_a_new_skill_is_valid_as_it_stands_and_reads_nothing(tmp_path: Path) -> None:
    made = read_skill(write_new(tmp_path / "skills", "my-skill"))
    assert (made.name, made.scope.sources, made.scope.web) == ("my-skill", frozenset(), False)


@pytest.mark.parametrize("name", ["../x", "", "A", "a b", "a/b", "x" * 65])
def test_a_new_skill_with_a_bad_name_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(SkillFault, match="A skill's name must be"):
        write_new(tmp_path / "skills", name)
    assert list(tmp_path.iterdir()) == []


def test_a_new_skill_overwrites_none(tmp_path: Path) -> None:
    write_new(tmp_path, "mine")
    (tmp_path / "mine" / "SKILL.md").write_text("hours of work")
    with pytest.raises(SkillFault, match="is there already"):
        write_new(tmp_path, "mine")
    assert (tmp_path / "mine" / "SKILL.md").read_text() == "hours of work"
