"""One broken skill among good ones, unknown names, and `/name question`."""

from pathlib import Path

import pytest

from service.errors import InvalidRequest, SkillFault, UnknownSkill
from service.skills.registry import Skills, invocation
from service.skills.report import doubts, faults, state_of
from service.skills.skill import NO_SKILL
from tests.skills.writing import skill, skills, write_skill


def test_one_broken_skill_disables_none_of_the_others(tmp_path: Path) -> None:
    """U24."""
    for name in ("good", "fine"):
        write_skill(tmp_path, name)
    write_skill(tmp_path, "broken", yaml_text="sources: &a [*a]\n")
    write_skill(tmp_path, "Wrong Name")
    (tmp_path / "empty").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "README.md").write_text("loose files are no one's skill")
    (tmp_path / ".git").mkdir()
    found = Skills.load(tmp_path)
    assert [one.name for one in found] == ["fine", "good"]
    assert [one.folder for one in found.broken] == ["Wrong Name", "broken", "dangling", "empty"]
    assert faults(found)[1] == (
        "skill broken is not usable: skill.yaml: line 1: anchors (&) and aliases (*) are not allowed; "
        "put such text in quotes"
    )
    state = state_of(found, lambda _: True)
    assert (state.ok, state.detail) == (True, "fine, good")
    assert "skill empty is not usable: SKILL.md: is missing" in state.warning


def test_a_folder_name_cannot_forge_a_line_of_the_report(tmp_path: Path) -> None:
    (tmp_path / "a\r\nskill b is usable\x1b[2J").mkdir()
    [line] = faults(Skills.load(tmp_path))
    assert line.isprintable()


def test_a_folder_of_skills_that_was_named_must_be_there(tmp_path: Path) -> None:
    assert list(Skills.load(tmp_path / "none", optional=True)) == []
    with pytest.raises(SkillFault, match="SKILLS_DIR"):
        Skills.load(tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(SkillFault, match="SKILLS_DIR"):
        Skills.load(tmp_path / "file", optional=True)


def test_a_source_that_was_never_ingested_is_pointed_out(tmp_path: Path) -> None:
    write_skill(tmp_path, "one", sources=["rules", "rulez"])
    write_skill(tmp_path, "two", sources=["rulez"])
    write_skill(tmp_path, "three")
    found = Skills.load(tmp_path)
    assert doubts(found, {"rules"}.__contains__) == [
        "the source 'rulez', named by one, two, was never ingested: nothing of it is found"
    ]


TRAVERSALS = [
    "../secrets",
    "..",
    ".",
    "/etc/passwd",
    "client-money/",
    "./client-money",
    "../skills/client-money",
    "..%2f..%2fetc",
    "..\\..\\x",
    "client-money\0",
    "client-money.yaml",
    "CLIENT-MONEY",
    "client money",
    "ｃlient-money",
    "client\u200b-money",
    "client-money\n",
    " client-money",
    "",
    "a" * 65,
    "__proto__",
    "__class__",
    "con",
    "file:///x",
    "%2e%2e",
    "....//x",
    "\u202e",
]


@pytest.mark.parametrize("name", TRAVERSALS)
def test_a_name_is_a_key_and_never_part_of_a_path(name: str) -> None:
    with pytest.raises(UnknownSkill) as unknown:
        skills("client-money", "aml_check", "a").get(name)
    assert str(unknown.value) == "There is no such skill. There are: a, aml_check, client-money."


def test_the_list_of_valid_names_is_cut_where_it_would_be_endless() -> None:
    with pytest.raises(UnknownSkill) as unknown:
        skills(*(f"s{n:03}" for n in range(50))).get("x")
    assert str(unknown.value).endswith("s019 and 30 more (GET /skills).")


@pytest.mark.parametrize(
    "question", ["/short why?", "  /short why?", "/short\nwhy?", "/short\u00a0why?", "/short   why?"]
)
def test_a_question_that_begins_with_a_skills_name_selects_it(question: str) -> None:
    house = Skills([skill("short")])
    assert house.chosen(None, question) == (house.get("short"), "why?")
    assert house.chosen("short", question) == (house.get("short"), "why?")


@pytest.mark.parametrize("question", ["why /short?", "why?", "/ short", "//short", "/", "", "/-short", "1/short"])
def test_a_slash_elsewhere_is_part_of_the_question(question: str) -> None:
    assert invocation(question) == (None, question)


def test_without_a_skill_a_question_is_left_as_it_is() -> None:
    assert skills("short").chosen(None, "  why?\n") == (NO_SKILL, "  why?\n")


@pytest.mark.parametrize(
    "question", ["/shrot why?", "/Short why?", "/etc/passwd why?", "/short/x why?", "/short: why?"]
)
def test_a_misspelt_invocation_is_never_answered_without_its_skill(question: str) -> None:
    with pytest.raises(UnknownSkill, match="There are: short"):
        skills("short").chosen(None, question)


@pytest.mark.parametrize("question", ["/short", "/short ", "/short \n", "/short ?!"])
def test_an_invocation_without_a_question_is_told_to_write_one(question: str) -> None:
    with pytest.raises(InvalidRequest, match="Write the question behind it"):
        skills("short").chosen(None, question)


def test_two_different_skills_in_one_request_are_refused() -> None:
    house = skills("short", "long")
    with pytest.raises(InvalidRequest, match="another skill"):
        house.chosen("long", "/short why?")
    with pytest.raises(UnknownSkill):
        house.chosen("lnog", "/short why?")
