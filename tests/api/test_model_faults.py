"""Faults of models and graders as the reader of the wire sees them: one terminal event, no half turn, no insides."""

from pathlib import Path

import pytest

from service.errors import ModelUnavailable, ModelUnusable
from service.model import Grade, Judgement
from tests.fakes import ScriptedModel, cut, services
from tests.running import House
from tests.served import serving
from tests.wire import assert_grammar, kinds, of

AWAY = "The model does not answer at the moment."
CANARY = "canary-5b1e says {yes}"


class Away(ModelUnavailable):
    """The fake streams its second argument first; what is shown of the fault is the first alone."""

    def __str__(self) -> str:
        return str(self.args[0])


@pytest.mark.parametrize("delivery", ["draft", "verified"])
@pytest.mark.parametrize("begun", ["", "The rule says [[1]] that"])
async def test_D14_a_model_that_breaks_off_ends_in_one_error_and_the_thread_goes_on(
    tmp_path: Path, begun: str, delivery: str
) -> None:
    model = ScriptedModel(draft=lambda *_: Away(AWAY, begun))
    async with serving(House(services(tmp_path), model)) as served:
        frames = await served.frames(thread_id="t", delivery=delivery)
        assert_grammar(frames, delivery)
        assert {key: frames[-1][key] for key in ("type", "code", "message", "retryable")} == {
            "type": "error",
            "code": "model_unavailable",
            "message": AWAY,
            "retryable": True,
        }
        assert "".join(frame["text"] for frame in of(frames, "token")) == (begun if delivery == "draft" else "")
        assert model.count("answer") == 1
        assert (await served.client.get("/threads/t")).status_code == 404
        model.draft = ScriptedModel().draft
        assert (await served.frames(thread_id="t"))[-1]["status"] == "answered"
        [turn] = (await served.client.get("/threads/t")).json()["items"]
        assert turn["status"] == "answered"


async def test_D14_json_gets_the_status_of_the_fault(tmp_path: Path) -> None:
    model = ScriptedModel(draft=lambda *_: Away(AWAY))
    async with serving(House(services(tmp_path), model)) as served:
        answer = await served.answer()
    assert answer.status_code == 503
    assert answer.json() == {"error": {"code": "model_unavailable", "message": AWAY, "retryable": True}}


@pytest.mark.parametrize("stop_reason", ["max_tokens", "refusal", "model_context_window_exceeded"])
async def test_D14_an_answer_that_was_cut_is_never_shown_as_answered(tmp_path: Path, stop_reason: str) -> None:
    model = ScriptedModel(draft=lambda *_: cut("The first half [[1]]", stop_reason))
    async with serving(House(services(tmp_path), model)) as served:
        frames = await served.frames(thread_id="t")
        [turn] = (await served.client.get("/threads/t")).json()["items"]
    assert_grammar(frames)
    assert [(v["gate"], v["result"]) for v in of(frames, "verdict")] == [
        ("documents", "pass"),
        ("grounded", "skipped"),
        ("answers", "skipped"),
    ]
    assert frames[-1]["status"] == turn["status"] == "partial"
    assert frames[-1]["warning"] == turn["warning"] != ""


async def test_D15_when_no_grade_can_be_believed_the_run_ends_in_error_and_not_in_a_refusal(tmp_path: Path) -> None:
    model = ScriptedModel(grading=lambda *_: Grade("error", CANARY))
    async with serving(House(services(tmp_path), model)) as served:
        frames = await served.frames(thread_id="t")
        as_json = await served.answer()
        assert (await served.client.get("/threads/t")).status_code == 404
    assert_grammar(frames)
    assert (frames[-1]["code"], frames[-1]["retryable"]) == ("model_unusable", True)
    assert "token" not in kinds(frames)
    assert (as_json.status_code, as_json.json()["error"]["code"]) == (502, "model_unusable")
    assert CANARY not in str(frames)


async def test_D15_a_passage_whose_grade_cannot_be_believed_is_not_used(tmp_path: Path) -> None:
    def grading(_: int, item: object) -> Grade:
        return Grade("error", CANARY) if str(item).count("p000000000000002") else Grade("pass", CANARY)

    async with serving(House(services(tmp_path), ScriptedModel(grading=grading))) as served:
        frames = await served.frames()
    assert frames[-1]["status"] == "answered"
    assert "p000000000000002" not in {item["passage_id"] for item in of(frames, "sources")[0]["items"]}
    assert {item["grade"] for item in frames[-1]["consulted"] if item["passage_id"].endswith("2")} == {"error"}
    assert CANARY not in str(frames)


@pytest.mark.parametrize("result", ["pass", "fail", "error"])
async def test_the_words_of_a_judge_never_reach_the_wire(tmp_path: Path, result: str) -> None:
    """U16: a canary in every judge's words."""
    said = Judgement(result, CANARY)  # type: ignore[arg-type]  # the three results, by name
    model = ScriptedModel(grounded=lambda _: said, answering=lambda _: said)
    async with serving(House(services(tmp_path), model)) as served:
        async with served.asking(thread_id="t") as stream:
            frames = [frame async for frame in stream.frames]
        thread = (await served.client.get("/threads/t")).text
    assert_grammar(frames)
    assert CANARY.encode() not in b"".join(block for _, block in stream.blocks)
    assert CANARY not in thread


@pytest.mark.parametrize("fault", [RuntimeError("secret /etc/passwd"), ExceptionGroup("g", [KeyError("secret")])])
async def test_a_bug_leaves_as_internal_and_its_text_stays_inside(tmp_path: Path, fault: Exception) -> None:
    def draft(*_: object) -> str:
        raise fault

    async with serving(House(services(tmp_path), ScriptedModel(draft=draft))) as served:
        frames = await served.frames()
        as_json = await served.answer()
    assert_grammar(frames)
    assert (frames[-1]["code"], frames[-1]["retryable"]) == ("internal", False)
    assert as_json.status_code == 500
    assert "secret" not in str(frames) + as_json.text


async def test_a_fault_in_a_route_is_a_500_in_the_same_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = House(services(tmp_path), ScriptedModel())
    async with serving(home) as served:
        monkeypatch.setattr(home.history, "threads", lambda _: 1 / 0)
        answer = await served.client.get("/threads")
    assert answer.status_code == 500
    assert {**answer.json()["error"], "message": ""} == {"code": "internal", "message": "", "retryable": False}
    assert "division" not in answer.text


async def test_a_model_that_cannot_be_believed_before_the_first_token_is_told_apart(tmp_path: Path) -> None:
    async with serving(House(services(tmp_path), ScriptedModel(draft=lambda *_: ModelUnusable(AWAY)))) as served:
        assert (await served.answer()).status_code == 502
