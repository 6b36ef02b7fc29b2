"""A skill's folder is read strictly, and never left."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from service.errors import SkillFault
from service.model import Scope
from service.skills.folder import read_skill
from service.skills.skill import Gates
from tests.skills.writing import declared, write_skill


def refusal(place: Path) -> str:
    with pytest.raises(SkillFault) as refused:
        read_skill(place)
    return str(refused.value)


def test_a_skill_says_exactly_what_its_files_say(tmp_path: Path) -> None:
    gates = {
        "grading_hint": "Periods matter.",
        "top_n": 8,
        "max_rewrites": 0,
        "max_regen": 2,
        "delivery": "verified",
        "on_ungrounded": "refuse",
    }
    web = {"allowed": True, "domains": ["Example.org", "bücher.example"]}
    place = write_skill(tmp_path, "clocks", sources=["rules"], kinds=["official"], web=web, gates=gates)
    found = read_skill(place)
    assert (found.name, found.description, found.instructions) == ("clocks", "For tests.", "Be brief.")
    domains = frozenset({"example.org", "xn--bcher-kva.example"})
    assert found.scope == Scope(frozenset({"rules"}), frozenset({"official"}), True, domains)
    assert found.gates == Gates("Periods matter.", 8, 0, 2, "verified", "refuse")


def test_the_hash_is_the_one_that_sha256sum_gives_and_changes_with_either_file(tmp_path: Path) -> None:
    place = write_skill(tmp_path, "one")
    sums = [
        f"{hashlib.sha256((place / name).read_bytes()).hexdigest()}  {name}\n" for name in ("SKILL.md", "skill.yaml")
    ]
    first = read_skill(place).sha256
    assert first == hashlib.sha256("".join(sums).encode()).hexdigest()
    (place / "skill.yaml").write_text((place / "skill.yaml").read_text() + "# changed\n")
    second = read_skill(place).sha256
    (place / "SKILL.md").write_text((place / "SKILL.md").read_text() + "More.\n")
    assert len({first, second, read_skill(place).sha256}) == 3


def test_all_is_everything_a_list_is_itself_and_an_empty_list_is_nothing(tmp_path: Path) -> None:
    everything = read_skill(write_skill(tmp_path, "everything")).scope
    nothing = read_skill(write_skill(tmp_path, "nothing", sources=[], kinds=[])).scope
    assert (everything.sources, everything.kinds) == (None, None)
    assert (nothing.sources, nothing.kinds) == (frozenset(), frozenset())


@pytest.mark.parametrize("key", ["sources", "kinds", "web"])
def test_what_may_be_read_has_no_default(tmp_path: Path, key: str) -> None:
    assert f"skill.yaml: {key} is missing: write" in refusal(write_skill(tmp_path, "x", **{key: None}))


def test_a_web_without_domains_is_a_forbidden_web(tmp_path: Path) -> None:
    web = {"allowed": True, "domains": []}
    assert not read_skill(write_skill(tmp_path, "nowhere", web=web)).scope.web
    assert "needs `domains`" in refusal(write_skill(tmp_path, "unsaid", web={"allowed": True}))


BAD_FIELDS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": ({"tools": ["shell"]}, "tools is not a known key"),
    "unknown key below": ({"gates": {"top_m": 3}}, "gates.top_m is not a known key"),
    "sources is a text": ({"sources": "rules"}, "sources: must be `all`, or a list"),
    "sources is ALL": ({"sources": "ALL"}, "sources: must be `all`, or a list"),
    "all in a list": ({"sources": ["all"]}, "sources: write `all` by itself"),
    "a number among the sources": ({"sources": [1]}, "sources: must be `all`, or a list"),
    "an empty name": ({"sources": [" "]}, "sources: must be `all`, or a list"),
    "a control character": ({"sources": ["a\x1b[2J"]}, "control characters"),
    "too many sources": ({"sources": [f"s{n}" for n in range(201)]}, "at most 200"),
    "sources is null": ({"sources": {"a": None}}, "sources: must be `all`, or a list"),
    "kinds has web": ({"kinds": ["web"]}, "kinds: must be `all`, or a list of official and reference"),
    "web is a boolean": ({"web": True}, "web: Input should be"),
    "allowed is a word": ({"web": {"allowed": "yes"}}, "web.allowed: Input should be a valid boolean"),
    "allowed is a number": ({"web": {"allowed": 1}}, "web.allowed: Input should be a valid boolean"),
    "top_n is zero": ({"gates": {"top_n": 0}}, "gates.top_n: Input should be greater than or equal to 1"),
    "top_n is huge": ({"gates": {"top_n": 21}}, "gates.top_n: Input should be less than or equal to 20"),
    "top_n is text": ({"gates": {"top_n": "6"}}, "gates.top_n: Input should be a valid integer"),
    "top_n is true": ({"gates": {"top_n": True}}, "gates.top_n: Input should be a valid integer"),
    "delivery is unknown": ({"gates": {"delivery": "fast"}}, "gates.delivery: Input should be"),
    "a toggle": ({"web_search": True}, "web_search is not a known key"),
    "a label": ({"gates": {"label": "REFERENCE"}}, "gates.label is not a known key"),
    "a long hint": ({"gates": {"grading_hint": "x" * 1001}}, "gates.grading_hint"),
}


@pytest.mark.parametrize(("changes", "said"), BAD_FIELDS.values(), ids=BAD_FIELDS)
def test_a_field_that_is_not_what_it_should_be_is_named(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    told = refusal(write_skill(tmp_path, "x", **changes))
    assert told.startswith("skill.yaml: ")
    assert said in told


BAD_DOMAINS = [
    "co.uk",
    "com",
    "github.io",
    "s3.amazonaws.com",
    "localhost",
    "*.example.org",
    "https://example.org",
    "example.org/path",
    "example.org:443",
    "user@example.org",
    "example.org.",
    ".example.org",
    "exa mple.org",
    "127.0.0.1",
    "::1",
    "a..example.org",
    "under_score.example.org",
    "2130706433",
]


@pytest.mark.parametrize("domain", BAD_DOMAINS)
def test_an_entry_that_is_no_domain_or_admits_strangers_is_refused(tmp_path: Path, domain: str) -> None:
    told = refusal(write_skill(tmp_path, "x", web={"allowed": True, "domains": [domain]}))
    assert "web.domains: " in told
    assert "no domain" in told or "public suffix" in told


BAD_MD = {
    "no front matter": ("Be brief.\n", "must begin with `---`"),
    "not closed": ("---\nname: x\ndescription: d\nBe brief.\n", "must begin with `---`"),
    "another name": ("---\nname: y\ndescription: d\n---\nBe brief.\n", "name: must be the folder's, x"),
    "no description": ("---\nname: x\n---\nBe brief.\n", "description is missing"),
    "no name": ("---\ndescription: d\n---\nBe brief.\n", "name is missing"),
    "the name is false": ("---\nname: false\ndescription: d\n---\nBe brief.\n", "name: Input should be a valid string"),
    "a key too many": ("---\nname: x\ndescription: d\ntools: [shell]\n---\nBe.\n", "tools is not a known key"),
    "a double key": ("---\nname: x\nname: x\ndescription: d\n---\nBe.\n", "more than once"),
    "no instructions": ("---\nname: x\ndescription: d\n---\n \n", "no instructions"),
    "nothing at all": ("", "must begin with `---`"),
    "escapes in the description": ('---\nname: x\ndescription: "a\\eb"\n---\nBe.\n', "control characters"),
    "a text turned round": ('---\nname: x\ndescription: "a\\u202Eb"\n---\nBe.\n', "control characters"),
    "a NUL in the instructions": ("---\nname: x\ndescription: d\n---\nBe\x00.\n", "control characters"),
    "instructions without end": ("---\nname: x\ndescription: d\n---\n" + "x" * 16_001, "longer than"),
    "a file without end": ("x" * 70_000, "larger than 64 KB"),
}


@pytest.mark.parametrize(("written", "said"), BAD_MD.values(), ids=BAD_MD)
def test_a_skill_md_that_cannot_be_used_says_why(tmp_path: Path, written: str, said: str) -> None:
    told = refusal(write_skill(tmp_path, "x", written=written))
    assert told.startswith("SKILL.md: ")
    assert said in told


def test_a_file_that_is_not_utf_8_or_too_large_is_refused(tmp_path: Path) -> None:
    utf16 = write_skill(tmp_path, "utf16")
    (utf16 / "skill.yaml").write_bytes("sources: all\n".encode("utf-16"))
    large = write_skill(tmp_path, "large", yaml_text="x" * 300_000)
    assert refusal(utf16) == "skill.yaml: is not UTF-8 text"
    assert refusal(large) == "skill.yaml: is larger than 64 KB"


def test_windows_line_ends_and_a_byte_order_mark_do_no_harm(tmp_path: Path) -> None:
    plain = write_skill(tmp_path / "plain", "x")
    other = write_skill(tmp_path / "other", "x")
    for file in other.iterdir():
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    first, second = read_skill(plain), read_skill(other)
    assert (first.description, first.instructions, first.scope) == (
        second.description,
        second.instructions,
        second.scope,
    )


@pytest.mark.parametrize("name", ["Upper", "a b", "a.b", "-a", "_a", "é", "a" * 65, "a\nb"])
def test_a_folder_whose_name_is_no_skills_name_is_refused(tmp_path: Path, name: str) -> None:
    assert "the folder's name must be" in refusal(write_skill(tmp_path, name))


@pytest.mark.parametrize("name", ["SKILL.md", "skill.yaml"])
def test_a_file_that_is_missing_a_folder_or_a_pipe_is_refused(tmp_path: Path, name: str) -> None:
    makers: dict[str, Callable[[Path], object]] = {"none": str, "folder": os.mkdir, "pipe": os.mkfifo}
    for what, make in makers.items():
        place = write_skill(tmp_path, what)
        (place / name).unlink()
        make(place / name)
        assert refusal(place).startswith(f"{name}: ")


@pytest.mark.parametrize("name", ["SKILL.md", "skill.yaml"])
@pytest.mark.parametrize(
    "goal", ["/etc/passwd", "../outside", "../other/{name}", "loop", "/dev/zero", "/proc/self/environ"]
)
def test_a_link_out_of_the_folder_is_refused(tmp_path: Path, name: str, goal: str) -> None:
    write_skill(tmp_path, "other")
    (tmp_path / "outside").write_text("secret: yes\n")
    place = write_skill(tmp_path, "x")
    (place / name).unlink()
    (place / name).symlink_to(name if goal == "loop" else goal.format(name=name))
    told = refusal(place)
    assert told.startswith(f"{name}: ")
    assert "link" in told or "cannot be read" in told
    assert "secret" not in told


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    write_skill(tmp_path / "elsewhere", "x")
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "x").symlink_to(tmp_path / "elsewhere" / "x")
    assert "is a link" in refusal(tmp_path / "skills" / "x")


def test_links_inside_the_folder_work_as_a_mounted_config_map_makes_them(tmp_path: Path) -> None:
    place = write_skill(tmp_path, "mounted")
    (place / "..2031").mkdir()
    (place / "..data").symlink_to("..2031")
    for name in ("SKILL.md", "skill.yaml"):
        (place / name).rename(place / "..2031" / name)
        (place / name).symlink_to(f"..data/{name}")
    assert read_skill(place).name == "mounted"


def test_text_that_looks_like_a_template_stays_text(tmp_path: Path) -> None:
    said = "{question.__class__.__mro__} {0} %s ${HOME} $sources"
    head = "---\nname: x\ndescription: '{0} %s $HOME'\n---\n"
    found = read_skill(write_skill(tmp_path, "x", written=head + said, gates={"grading_hint": said}))
    assert (found.description, found.instructions, found.gates.grading_hint) == ("{0} %s $HOME", said, said)


def test_a_front_matter_may_hold_a_rule_of_dashes_below_it(tmp_path: Path) -> None:
    head = "---\nname: x\ndescription: d\n---\n"
    found = read_skill(write_skill(tmp_path, "x", written=f"{head}First.\n\n---\n\nThen.\n"))
    assert found.instructions == "First.\n\n---\n\nThen."


def test_the_manifest_of_the_tests_is_complete() -> None:
    assert declared().keys() == {"sources", "kinds", "web"}
