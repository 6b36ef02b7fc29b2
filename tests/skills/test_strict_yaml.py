"""YAML that surprises nobody."""

import pytest

from service.errors import SkillFault
from service.skills.strict_yaml import load_mapping

BOMB = "\n".join(
    f"{name}: &{name} [{', '.join([f'*{below}'] * 9) if below else 'x, x, x, x, x, x, x, x, x'}]"
    for below, name in zip(["", *"abcdefgh"], "abcdefghi", strict=True)
)

REFUSED = {
    "python tag": ('name: x\nprompt: !!python/object/apply:os.system ["id"]\n', "line 2: tags"),
    "own tag": ("name: !x y\n", "line 1: tags"),
    "binary tag": ("name: !!binary aGk=\n", "line 1: tags"),
    "alias bomb": (BOMB, "line 1: anchors"),
    "alias of itself": ("a: &a\n  b: *a\n", "line 1: anchors"),
    "merge by alias": ("a: &x {b: 1}\nc:\n  <<: *x\n", "line 1: anchors"),
    "double key": ("name: a\nname: b\n", "line 2: the key 'name' is written more than once"),
    "double key below": ("web:\n  allowed: true\n  allowed: false\n", "line 3: the key 'allowed'"),
    "double key in other quotes": ("name: a\n'name': b\n", "line 2: the key 'name'"),
    "second document": ("name: a\n---\nname: b\n", "a second document"),
    "deep lists": ("[" * 10_000, "nested more than"),
    "deep mappings": ("{a: " * 10_000, "nested more than"),
    "not a mapping": ("- a\n- b\n", "must be a mapping"),
    "a bare text": ("hello", "must be a mapping"),
    "nothing": ("", "must be a mapping"),
    "only a comment": ("# nothing\n", "must be a mapping"),
    "a number as key": ("1: a\n", "a key must be text"),
    "null as key": ("~: a\n", "a key must be text"),
    "a list as key": ("? [a, b]\n: c\n", "a key must be text"),
    "a tab": ("a:\n\t- b\n", "not valid YAML"),
    "not closed": ("a: [b\n", "not valid YAML"),
    "a control character": ("a: \x07\n", "not valid YAML"),
    "a directive": ("%YAML 9.9\n---\na: b\n", "not valid YAML"),
}


@pytest.mark.parametrize(("text", "said"), REFUSED.values(), ids=REFUSED)
def test_what_could_surprise_is_refused_and_named(text: str, said: str) -> None:
    with pytest.raises(SkillFault) as refused:
        load_mapping(text)
    assert said in str(refused.value)


STAYS_TEXT = [
    "no",
    "yes",
    "on",
    "Off",
    "True",
    "1.10",
    "12:30",
    "0x1F",
    "012",
    "1_000",
    "2031-07-01",
    "1e3",
    ".inf",
    "=",
]


@pytest.mark.parametrize("written", STAYS_TEXT)
def test_what_yaml_1_1_turns_into_something_else_stays_the_text_that_was_written(written: str) -> None:
    assert load_mapping(f"a: {written}\nb: [{written}]\n") == {"a": written, "b": [written]}


def test_whole_numbers_booleans_and_null_are_what_they_look_like() -> None:
    found = load_mapping("a: 6\nb: true\nc: false\nd:\ne: null\nf: -1\ng: 0\n")
    assert found == {"a": 6, "b": True, "c": False, "d": None, "e": None, "f": -1, "g": 0}


def test_a_number_too_long_for_a_number_is_text() -> None:
    assert load_mapping(f"a: {'9' * 5_000}\n") == {"a": "9" * 5_000}


def test_a_merge_key_is_a_key_like_any_other() -> None:
    assert load_mapping("a:\n  <<: {b: 1}\n") == {"a": {"<<": {"b": 1}}}
