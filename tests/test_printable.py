"""What a terminal or a log may be given: nothing that moves the cursor, turns the text around or forges a line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.printable import on_one_line, printable

STEERING = [
    "\x1b]0;x\x07",
    "\x1b[2J\x1b[1;31m",
    "\x9b31m",
    "\x9d0;x\x9c",
    "\u202egnp.exe",
    "\u2066hidden\u2069",
    "\x7f",
    "\x08\x08\x08",
    "\rwritten over",
    "\u2028",
    "\U000e0041",
    "\ud800",
]


@pytest.mark.parametrize("said", STEERING)
def test_what_steers_a_terminal_is_shown_as_an_escape(said: str) -> None:
    for shown in (printable(said), on_one_line(said)):
        assert shown.isprintable()
        assert "\\" in shown
        shown.encode()


def test_lines_and_tabs_stay_where_a_text_may_have_several_lines() -> None:
    assert printable("a\n\tb\x1b[2J\n") == "a\n\tb\\x1b[2J\n"
    assert on_one_line("a\n\tb") == r"a\n\tb"


def test_words_of_any_language_and_every_space_stay_readable() -> None:
    assert printable("§\u00a04.2 “Müller” 名 مال") == "§ 4.2 “Müller” 名 مال"
    assert on_one_line("Smith [2019] EWCA\u202fCiv 1 — naïve") == "Smith [2019] EWCA Civ 1 — naïve"


@given(st.text())
def test_no_text_at_all_steers_a_terminal(text: str) -> None:
    assert on_one_line(text).isprintable()
    assert all(character.isprintable() or character in "\n\t" for character in printable(text))
