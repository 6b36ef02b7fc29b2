"""What `gatehouse ask` prints of a run."""

import io
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from service.ask import Event, Terminal
from tests.test_printable import STEERING


def printed(*events: Event) -> tuple[str, bool]:
    output = io.StringIO()
    terminal = Terminal(Console(file=output, width=200, color_system=None))
    for event in events:
        terminal.show(event)
    return output.getvalue(), terminal.failed


SOURCE = {
    "n": 3,
    "label": "VECTOR",
    "title": "CM 4",
    "section": "CM 4.2.1",
    "link": "http://127.0.0.1/site/x#:~:text=a",
}


def done(**changes: Any) -> Event:
    plain = {
        "type": "done",
        "thread_id": "t_1",
        "status": "answered",
        "warning": "",
        "citations": [{"n": 3, "status": "verified"}],
        "verdicts": [{"gate": "grounded", "result": "pass"}],
        "rewrites": 0,
        "regens": 1,
        "timings": {"total": 1234.0},
    }
    return plain | changes


def test_the_answer_streams_and_its_sources_follow_with_links() -> None:
    text, failed = printed(
        {"type": "sources", "items": [SOURCE], "warnings": []},
        {"type": "token", "text": "“Daily.” "},
        {"type": "token", "text": "[[3]]"},
        done(),
    )
    assert "“Daily.” [[3]]" in text
    assert "[[3]] [VECTOR] CM 4  CM 4.2.1  (verified)" in text
    assert "http://127.0.0.1/site/x#:~:text=a" in text
    assert "answered: grounded pass; attempt 2; 1.2 s" in text
    assert not failed


def test_the_skill_is_named_and_the_thread_goes_on_with_it() -> None:
    run = {"type": "run", "skill": {"name": "clocks", "sha256": "f" * 64}, "warnings": []}
    text, _ = printed(run, done())
    assert text.startswith("skill: clocks\n")
    assert "go on with --thread t_1 --skill clocks" in text


def test_text_that_looks_like_markup_is_printed_as_it_is() -> None:
    text, _ = printed({"type": "token", "text": "[bold]Smith [2019] EWCA[/bold] :smile:"})
    assert text == "[bold]Smith [2019] EWCA[/bold] :smile:"


def test_a_withdrawn_draft_says_why_and_a_partial_answer_carries_its_warning() -> None:
    text, _ = printed(
        {"type": "token", "text": "wrong"},
        {"type": "reset", "reason": "quote_not_found"},
        done(status="partial", warning="Not every statement is supported.", citations=[]),
    )
    assert "draft withdrawn: it quoted words that no source holds" in text
    assert "Not every statement is supported." in text


def test_an_error_is_shown_and_remembered_for_the_exit_code() -> None:
    text, failed = printed({"type": "error", "code": "model_unavailable", "message": "Try again."})
    assert "error (model_unavailable): Try again." in text
    assert failed


RUN = {"type": "run", "skill": {"name": "clocks", "sha256": "f" * 64}, "warnings": []}
FOREIGN: dict[str, Callable[[str], list[Event]]] = {
    "skill": lambda said: [{**RUN, "skill": {"name": said, "sha256": "f" * 64}}, done()],
    "warning at start": lambda said: [{**RUN, "warnings": [said]}],
    "warning of the sources": lambda said: [{"type": "sources", "items": [], "warnings": [said]}],
    "title": lambda said: [{"type": "sources", "items": [{**SOURCE, "title": said}], "warnings": []}, done()],
    "section": lambda said: [{"type": "sources", "items": [{**SOURCE, "section": said}], "warnings": []}, done()],
    "link": lambda said: [{"type": "sources", "items": [{**SOURCE, "link": said}], "warnings": []}, done()],
    "token": lambda said: [{"type": "token", "text": said}],
    "tokens": lambda said: [{"type": "token", "text": character} for character in said],
    "reset": lambda said: [{"type": "reset", "reason": said}],
    "warning": lambda said: [done(warning=said)],
    "thread": lambda said: [done(thread_id=said)],
    "error": lambda said: [{"type": "error", "code": "c", "message": said}],
}


@pytest.mark.parametrize("where", FOREIGN)
@pytest.mark.parametrize("said", STEERING)
def test_nothing_of_a_run_steers_the_terminal(where: str, said: str) -> None:
    text, _ = printed(*FOREIGN[where](f"before{said}after"))
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "before" in text
    assert "after" in text


def test_a_title_cannot_pass_for_a_verdict_of_its_own() -> None:
    forged = {**SOURCE, "title": "CM 4\nanswered: grounded pass, answers pass"}
    text, _ = printed({"type": "sources", "items": [forged], "warnings": []}, done(status="partial"))
    assert not [line for line in text.splitlines() if line.startswith("answered")]


def test_the_lines_of_an_answer_stay_lines() -> None:
    text, _ = printed({"type": "token", "text": "- one\n- two"})
    assert text == "- one\n- two"
