from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.citations.markers import AbstainGate, Marker, MarkerFilter, find_markers
from service.model import ABSTAIN

TEXTS = [
    "Firms keep records [[12]]. They report [[1]][[2]].",
    "Smith [2019] EWCA Civ 1 [Redacted] [1] [[x]] [[-1]] [[1e3]] [[１]]",
    "`a[[1]]`\n```\nx[[2]] = [[\n```\n| a | b [[1]] |\n|---|---|\n",
    "[[12]]",
    "[[1]][[2]]",
    "[[",
    "[2019]",
    "[[x]]",
    "```\n[[12]] a[0][[1]]\n```",
    "~~~ py\nx[[0]]\n~~~\n    code [[2]]",
    "| a [[1]] | [2019] |\n|---|---|\n| [[x]] | [[1]][[2]] |",
    "[[[1]]] [[[[2]]]] [[1] [[2]] [[1]]",
    "ends open [[12",
    "ends open [",
    "[[99]] [[0]] [[007]] [[12345]] [[]] [[ 1]]",
]


def run(pieces: list[str], numbers: set[int]) -> tuple[list[str], MarkerFilter]:
    marker_filter = MarkerFilter(numbers)
    sent = [piece for text in pieces for piece in marker_filter.feed(text)]
    return sent + marker_filter.flush(), marker_filter


def assert_markers_whole(sent: list[str], text: str) -> None:
    starts = {sum(map(len, sent[:index])) for index in range(len(sent))}
    assert not any(marker.start < cut < marker.end for marker in find_markers(text) for cut in starts)


@pytest.mark.parametrize("text", TEXTS)
def test_every_split_position_leaves_the_text_identical_and_each_marker_whole(text: str) -> None:
    """U08."""
    whole, reference = run([text], {1, 2, 12})
    for first, second in combinations(range(len(text) + 1), 2):
        sent, marker_filter = run([text[:first], text[first:second], text[second:]], {1, 2, 12})
        assert "".join(sent) == text == "".join(whole)
        assert_markers_whole(sent, text)
        assert (marker_filter.cited, marker_filter.unknown) == (reference.cited, reference.unknown)


@pytest.mark.parametrize("text", TEXTS)
def test_a_stream_of_single_characters_leaves_the_text_identical(text: str) -> None:
    sent, _ = run(list(text), {1, 2, 12})
    assert "".join(sent) == text
    assert_markers_whole(sent, text)


@given(st.lists(st.text(alphabet="[]012x \n`", max_size=6), max_size=12))
def test_any_pieces_add_up_to_the_input(pieces: list[str]) -> None:
    sent, marker_filter = run(pieces, {1, 2})
    text = "".join(pieces)
    assert "".join(sent) == text
    assert_markers_whole(sent, text)
    assert set(marker_filter.cited) == {marker.n for marker in find_markers(text)} & {1, 2}


def test_known_numbers_are_recorded_in_order_without_repeats() -> None:
    _, marker_filter = run(["[[2]] and [[1]] and [[", "2]] and [[12]]"], {1, 2, 12})
    assert marker_filter.cited == [2, 1, 12]
    assert marker_filter.unknown == []


@pytest.mark.parametrize("marker", ["[[99]]", "[[0]]", "[[007]]", "[[12345]]", "[[12345678901234567890]]"])
def test_digits_that_name_no_source_are_unknown_at_every_split(marker: str) -> None:
    for cut in range(len(marker) + 1):
        _, marker_filter = run([f"see {marker[:cut]}", f"{marker[cut:]} there"], {1, 9})
        assert marker_filter.unknown == [marker]
        assert marker_filter.cited == []


@pytest.mark.parametrize("text", ["[[x]]", "[2019]", "[[-1]]", "[[1e3]]", "[[１]]", "[[ 1 ]]", "[1]", "[[1]", "[[]]"])
def test_other_brackets_are_plain_text(text: str) -> None:
    """U09."""
    sent, marker_filter = run([text], {1})
    assert sent == [text] or "".join(sent) == text
    assert (marker_filter.cited, marker_filter.unknown) == ([], [])


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("a", "a"),
        ("a[", "a"),
        ("a[[", "a"),
        ("a[[1", "a"),
        ("a[[1234]", "a"),
        ("a[[1]]", "a[[1]]"),
        ("a[x", "a[x"),
        ("a[[0", "a[[0"),
        ("a[[12345", "a[[12345"),
        ("a[[1x", "a[[1x"),
        ("a[[[", "a["),
        ("a[[1][", "a[[1]"),
    ],
)
def test_only_an_end_that_may_become_a_marker_is_held_back(text: str, sent: str) -> None:
    assert "".join(MarkerFilter({1}).feed(text)) == sent


def test_markers_are_found_with_their_places() -> None:
    assert find_markers("a [[1]] b [[12]][[0]]") == [Marker(2, 7, 1), Marker(10, 16, 12)]


# The abstention mark


def gate(pieces: list[str]) -> tuple[str, AbstainGate]:
    opened = AbstainGate()
    return "".join(opened.feed(piece) for piece in pieces) + opened.flush(), opened


@pytest.mark.parametrize("opening", ["", " ", "\n\n\t"])
def test_the_mark_is_recognised_at_every_split_and_nothing_passes(opening: str) -> None:
    text = f"{opening}{ABSTAIN} because the sources are silent [[1]]"
    for first, second in combinations(range(len(text) + 1), 2):
        passed, opened = gate([text[:first], text[first:second], text[second:]])
        assert opened.abstained
        assert passed == ""


@pytest.mark.parametrize(
    "text",
    ["[[abst", "[[1]] says so", "  plain", "[[Abstain]]", "", "   ", f"No. {ABSTAIN}", "[[abstain]", "[[abstain ]]"],
)
def test_any_other_opening_is_released_unchanged_at_every_split(text: str) -> None:
    for cut in range(len(text) + 1):
        passed, opened = gate([text[:cut], text[cut:]])
        assert passed == text
        assert not opened.abstained


def test_text_passes_as_soon_as_it_cannot_be_the_mark() -> None:
    opened = AbstainGate()
    assert opened.feed("  [[ab") == ""
    assert opened.feed("c") == "  [[abc"
    assert opened.feed(ABSTAIN) == ABSTAIN
    assert not opened.abstained


def test_abstention_is_known_before_the_stream_ends() -> None:
    opened = AbstainGate()
    opened.feed(ABSTAIN)
    assert opened.abstained
