"""The grammar of a run's events, as service/DESIGN.md states it, checked on what really left."""

import re
from collections.abc import Sequence
from typing import Any

Frame = dict[str, Any]
MARKER = re.compile(r"\[\[(\d{1,4})\]\]")


def kinds(frames: Sequence[Frame]) -> list[str]:
    return [frame["type"] for frame in frames]


def of(frames: Sequence[Frame], kind: str) -> list[Frame]:
    return [frame for frame in frames if frame["type"] == kind]


def shown_text(frames: Sequence[Frame]) -> str:
    """The tokens since the last reset."""
    text = ""
    for frame in frames:
        if frame["type"] == "reset":
            text = ""
        elif frame["type"] == "token":
            text += frame["text"]
    return text


def assert_grammar(frames: Sequence[Frame], delivery: str = "draft") -> None:
    names = kinds(frames)
    assert re.fullmatch(r"run( (stage|sources|token|reset|verdict))* (done|error)", " ".join(names)), names
    assert [frame["seq"] for frame in frames] == list(range(1, len(frames) + 1))
    assert len({frame["run_id"] for frame in frames}) == 1
    assert all(frame["v"] == 1 for frame in frames)
    attempts = [frame["attempt"] for frame in frames]
    assert attempts == sorted(attempts)
    assert_sources_precede_tokens(names)
    assert_resets_follow_tokens(frames)
    if delivery == "verified":
        assert_verdicts_precede_tokens(names)
    if names[-1] == "done":
        assert_done(frames)


def assert_sources_precede_tokens(names: Sequence[str]) -> None:
    if "token" in names:
        assert "sources" in names[: names.index("token")]


def assert_resets_follow_tokens(frames: Sequence[Frame]) -> None:
    text_of_attempt: dict[int, bool] = {}
    for frame in frames:
        if frame["type"] == "token":
            text_of_attempt[frame["attempt"]] = True
        if frame["type"] == "reset":
            assert text_of_attempt.get(frame["attempt"]), "a reset without a token of its attempt"
            text_of_attempt[frame["attempt"]] = False


def assert_verdicts_precede_tokens(names: Sequence[str]) -> None:
    assert "reset" not in names
    if "token" in names:
        assert "verdict" not in names[names.index("token") :]


def assert_done(frames: Sequence[Frame]) -> None:
    done = frames[-1]
    assert done["answer"] == shown_text(frames)
    numbers = {item["n"] for frame in of(frames, "sources") for item in frame["items"]}
    cited = {int(n) for n in MARKER.findall(done["answer"])}
    assert cited <= numbers
    assert {citation["n"] for citation in done["citations"]} <= numbers
    for frame in of(frames, "token"):
        assert not re.search(r"\[\[?\d*$|\[\[\d+\]$", frame["text"]) or frame is of(frames, "token")[-1]
    if done["status"] == "refused":
        assert done["citations"] == []
        assert not cited
    assert done["attempt"] == 1 + done["rewrites"] + done["regens"]
