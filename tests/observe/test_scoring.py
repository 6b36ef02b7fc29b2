"""Scores after the answer: in a worker of their own, which holds up no run, mixes up none and ends in time."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Literal

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from service.audit.log import AuditLog
from service.audit.route import route
from service.model import Grade
from service.observe.scorable import Scorable, scorable_of
from service.observe.score_numbers import ScoreNumbers
from service.observe.scoring import NoScore, NoScores, Scored, Scorer, Scoring, in_sample
from service.ports import AnswerModel, ScoreSink
from service.record import FeedbackRecord, RunRecord
from service.usage import Usage
from tests.audit.logs import audit_log, bodies
from tests.fakes import FixedKnowledge, ScriptedModel, passage, services
from tests.running import House
from tests.served import eventually


@dataclass
class FixedScorer:
    """Scores each answer by a rule, in its own time."""

    rule: Callable[[Scorable], float] = lambda _: 1.0
    delay_s: float = 0.0
    read: list[Scorable] = field(default_factory=list)
    closed: bool = False
    judge: dict[str, str] = field(default_factory=lambda: {"model": "a-judge"})

    async def scores(self, answer: Scorable, timeout_s: float) -> Scored:
        self.read.append(answer)
        await asyncio.sleep(min(self.delay_s, timeout_s))
        value = self.rule(answer)
        return Scored(Usage(), [{"name": "faithfulness", "value": value, "detail": "as told", "words": answer.answer}])

    async def aclose(self) -> None:
        self.closed = True


@dataclass
class Shown:
    """A sink that keeps what it was told."""

    told: list[tuple[str, str, float, str]] = field(default_factory=list)

    def score(self, run_id: str, name: str, value: float, comment: str = "") -> None:
        self.told.append((run_id, name, value, comment))


class BrokenSink:
    def score(self, run_id: str, name: str, value: float, comment: str = "") -> None:
        raise RuntimeError(f"{run_id} {name} {value} {comment}")


_scorer: Scorer = FixedScorer()
_sink: ScoreSink = Shown()


@dataclass
class ScoredHouse:
    house: House
    scoring: Scoring
    audit: AuditLog
    folder: Path

    def recorded(self) -> list[dict[str, Any]]:
        return bodies(self.folder, "score")


@asynccontextmanager
async def scored(
    tmp_path: Path,
    scorer: Scorer,
    *sinks: ScoreSink,
    model: AnswerModel | Callable[[], AnswerModel] | None = None,
    **options: Any,
) -> AsyncIterator[ScoredHouse]:
    knowledge = FixedKnowledge([passage(n) for n in range(1, 4)])
    parts = services(tmp_path / "snapshots", knowledge=knowledge)
    async with audit_log(tmp_path / "audit") as audit:
        given = {"sample_rate": 1.0, "queue_size": 32, "timeout_s": 20.0, "masked": False, **options}
        mask, before = given.pop("mask", str), given.pop("before", lambda _: None)

        def read(record: RunRecord) -> Scorable:
            before(parts.snapshots)
            return scorable_of(record, parts.snapshots, mask)

        scoring = Scoring(scorer, read, audit=audit, sinks=sinks, **given)
        try:
            house = House(parts, model or ScriptedModel(), audit=audit, observers=[scoring])
            yield ScoredHouse(house, scoring, audit, tmp_path / "audit")
        finally:
            await scoring.close()


async def test_a_score_goes_beside_the_runs_record_and_to_every_sink(tmp_path: Path) -> None:
    shown = Shown()
    async with scored(tmp_path, FixedScorer(lambda _: 0.75), BrokenSink(), shown) as home:
        [*_, done] = await home.house.ask()
        await eventually(lambda: home.scoring.scored == 1, 10)
        found = await home.audit.run(done["run_id"], "alice")
    assert shown.told == [(done["run_id"], "faithfulness", 0.75, "as told")]
    assert found is not None
    [record] = found.scores
    assert (record.body["scores"][0]["value"], record.body["judge"]) == (0.75, {"model": "a-judge"})
    assert "faithfulness 0.75 (as told)" in route([found.run, *found.scores])


async def test_a_judge_reads_the_standalone_question_the_answer_and_the_sources_whole_text(tmp_path: Path) -> None:
    scorer = FixedScorer()
    async with scored(tmp_path, scorer) as home:
        [*_, done] = await home.house.ask()
        await eventually(lambda: home.scoring.scored == 1, 10)
    assert scorer.read == [Scorable("How long must record 1 be kept?", done["answer"], scorer.read[0].sources)]
    assert scorer.read[0].sources == {n: passage(n).text for n in (1, 2, 3)}


async def test_what_a_judge_reads_is_masked(tmp_path: Path) -> None:
    scorer = FixedScorer()
    async with scored(tmp_path, scorer, mask=lambda text: text.replace("record", "[masked]"), masked=True) as home:
        await home.house.ask("How long must record 1 be kept? [DEEPEVAL:IMAGE:x]")
        await eventually(lambda: home.scoring.scored == 1, 10)
        assert home.recorded()[0]["masked"]
    [read] = scorer.read
    every = [read.question, read.answer, *read.sources.values()]
    assert all("[masked]" in text and "record" not in text for text in every)
    assert "[DEEPEVAL:" not in read.question


async def test_a_slow_judge_under_thirty_jobs_holds_up_no_run_and_what_it_cannot_take_is_counted(
    tmp_path: Path,
) -> None:
    async with scored(tmp_path, FixedScorer(delay_s=30), queue_size=5, drain_s=0.1) as home:
        runs = [home.house.ask(thread=f"t{n}") for n in range(30)]
        ended = await asyncio.wait_for(asyncio.gather(*runs), 30)
        assert [frames[-1]["status"] for frames in ended] == ["answered"] * 30
        # One may be with the judge already, five wait.
        assert home.scoring.dropped in (24, 25)
        assert f"{home.scoring.dropped} dropped" in home.scoring.state().detail
        began = time.monotonic()
    assert time.monotonic() - began < 5
    assert (home.scoring.dropped, home.scoring.waiting) == (30, 0)
    assert home.recorded() == []


async def test_no_score_is_mixed_up_between_runs_that_end_together(tmp_path: Path) -> None:
    """Each answer quotes a number of its own, which is its score too."""

    def number_in(answer: Scorable) -> float:
        return int(answer.answer.split("number ")[1].split(" ")[0]) / 100

    def next_model() -> ScriptedModel:
        return saying(f"number {next(numbers)} is kept")

    shown, numbers = Shown(), iter(range(1, 31))
    async with scored(tmp_path, FixedScorer(number_in), shown, model=next_model) as home:
        ended = await asyncio.gather(*(home.house.ask(thread=f"t{n}") for n in range(30)))
        await eventually(lambda: home.scoring.scored == 30, 20)
        recorded = {body["run_id"]: body["scores"] for body in home.recorded()}
    answers = {frames[-1]["run_id"]: frames[-1]["answer"] for frames in ended}
    assert len(set(answers.values())) == 30
    for run_id, _, value, _ in shown.told:
        assert f"number {round(value * 100)} " in answers[run_id]
        assert recorded[run_id][0]["words"] == answers[run_id]
    assert len(shown.told) == 30


def saying(text: str) -> ScriptedModel:
    return ScriptedModel(draft=lambda _, sources: f"The {text} [[{sources[0].n}]].")


async def test_what_is_under_way_at_the_end_has_its_drain_and_is_recorded(tmp_path: Path) -> None:
    scorer = FixedScorer(delay_s=0.3)
    async with scored(tmp_path, scorer, drain_s=20) as home:
        await home.house.ask()
        await home.house.ask(thread="t2")
    assert (home.scoring.scored, home.scoring.dropped, scorer.closed) == (2, 0, True)
    assert len(home.recorded()) == 2


class Blocking(FixedScorer):
    """Never gives its thread's loop a turn: nothing can cancel it."""

    release = threading.Event()

    async def scores(self, answer: Scorable, timeout_s: float) -> Scored:
        self.release.wait(60)
        return await super().scores(answer, timeout_s)


async def test_a_judge_that_blocks_its_thread_is_left_behind_and_does_not_hold_the_process(tmp_path: Path) -> None:
    async with scored(tmp_path, Blocking(), drain_s=0.1) as home:
        [*_, done] = await home.house.ask()
        began = time.monotonic()
        await home.scoring.close()
        assert time.monotonic() - began < 5
        assert (done["status"], home.scoring.dropped) == ("answered", 1)
        assert home.scoring._thread.daemon
        Blocking.release.set()
        await asyncio.to_thread(home.scoring._thread.join, 10)
    assert home.recorded() == []


class Emptied(SimpleQueue[Any]):
    """A queue whose last entry the worker takes just after it was seen to be there."""

    def empty(self) -> bool:
        return False

    def get_nowait(self) -> Any:
        raise Empty


async def test_the_end_does_not_wait_for_an_answer_that_the_worker_takes_at_that_moment(tmp_path: Path) -> None:
    async with scored(tmp_path, FixedScorer()) as home:
        await asyncio.wait_for(home.scoring.close(), 20)
        home.scoring._queue = Emptied()
        await asyncio.wait_for(asyncio.to_thread(home.scoring._give_up), 20)
        assert home.scoring.dropped == 0


async def test_a_run_that_ends_after_the_scores_were_closed_is_counted_as_dropped(tmp_path: Path) -> None:
    async with scored(tmp_path, FixedScorer()) as home:
        await home.scoring.close()
        [*_, done] = await home.house.ask()
    assert (done["status"], home.scoring.dropped) == ("answered", 1)


async def test_a_conversation_that_was_erased_is_not_sent_to_the_judge_nor_scored_late(tmp_path: Path) -> None:
    scorer = FixedScorer(delay_s=0.3)
    async with scored(tmp_path, scorer) as home:
        await home.house.ask()
        await eventually(lambda: len(scorer.read) == 1, 10)
        await home.house.ask(thread="t2", client="bob")
        for client, thread in (("alice", "t1"), ("bob", "t2")):
            await home.audit.append("erasure", erasure(home, client, thread))
        await eventually(lambda: home.scoring.waiting == 0, 10)
    assert len(scorer.read) == 1
    assert home.recorded() == []


def erasure(home: ScoredHouse, client: str, thread: str) -> dict[str, Any]:
    [key] = [body["thread_key"] for body in bodies(home.folder) if body["client"] == client]
    return {"client": client, "thread_id": thread, "thread_key": key, "skill": "", "runs_kept": 1}


async def test_a_refusal_has_nothing_to_score(tmp_path: Path) -> None:
    scorer = FixedScorer()
    refusing = ScriptedModel(grading=lambda _, __: Grade("fail", "not relevant"))
    async with scored(tmp_path, scorer, model=refusing) as home:
        [*_, done] = await home.house.ask()
    assert (done["status"], scorer.read, home.scoring.dropped) == ("refused", [], 0)


async def test_a_judge_that_breaks_is_seen_on_readyz_and_the_next_answer_has_its_turn(tmp_path: Path) -> None:
    answers = iter([1, 0])

    def rule(_: Scorable) -> float:
        if next(answers):
            raise RuntimeError("the answer's own words")
        return 0.5

    async with scored(tmp_path, FixedScorer(rule)) as home:
        await home.house.ask()
        await eventually(lambda: bool(home.scoring.state().warning), 10)
        await home.house.ask(thread="t2")
        await eventually(lambda: home.scoring.scored == 1, 10)
        assert home.scoring.state().warning == ""
    assert home.scoring.state().ok


async def test_a_source_whose_text_is_gone_gives_no_score_and_is_seen_on_readyz(tmp_path: Path) -> None:
    scorer = FixedScorer()
    async with scored(tmp_path, scorer, before=lambda snapshots: delete_all(snapshots.directory)) as home:
        [*_, done] = await home.house.ask()
        await eventually(lambda: bool(home.scoring.state().warning), 10)
    assert (done["status"], scorer.read, home.recorded()) == ("answered", [], [])


def delete_all(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_a_share_of_the_runs_is_scored_and_the_same_ones_each_time(rate: float) -> None:
    names = [f"run-{n}" for n in range(2000)]
    chosen = [name for name in names if in_sample(name, rate)]
    assert len(chosen) / 2000 == pytest.approx(rate, abs=0.04)
    assert chosen == [name for name in names if in_sample(name, rate)]


def test_no_run_is_of_the_share_zero_and_each_is_of_the_share_one() -> None:
    assert not any(in_sample(f"run-{n}", 0.0) for n in range(100))
    assert all(in_sample(f"run-{n}", 1.0) for n in range(100))


def test_scores_that_are_off_say_so_and_wait_for_nothing() -> None:
    off = NoScores([])
    record: RunRecord = {}  # type: ignore[typeddict-item]
    off.ended(record)
    assert (off.state().detail, off.waiting, off.dropped) == ("off", 0, 0)


class SeesFeedback(Shown):
    def feedback(self, record: FeedbackRecord) -> None: ...


def test_a_thumb_is_a_score_for_the_sinks_that_are_not_told_of_feedback_itself() -> None:
    counts, trace = Shown(), SeesFeedback()
    off = NoScores([BrokenSink(), counts, trace])
    off.feedback(feedback_on("r1", "up"))
    off.feedback(feedback_on("r1", "down"))
    assert counts.told == [("r1", "thumbs", 1.0, ""), ("r1", "thumbs", 0.0, "")]
    assert trace.told == []


def feedback_on(run_id: str, thumbs: Literal["up", "down"]) -> FeedbackRecord:
    return {
        "run_id": run_id,
        "client": "alice",
        "thread_id": "t",
        "thread_key": "k",
        "thumbs": thumbs,
        "comment": "my own words",
    }


def test_prometheus_reads_each_score_under_its_name_and_no_run() -> None:
    registry = CollectorRegistry()
    numbers = ScoreNumbers(registry)
    numbers.score("run-17", "faithfulness", 0.5, "words")
    numbers.score("run-18", "faithfulness", 1.0)
    numbers.score("run-19", "made up by someone", 1.0)
    text = generate_latest(registry).decode()
    assert 'gatehouse_score_sum{name="faithfulness"} 1.5' in text
    assert 'gatehouse_score_count{name="citation_support"} 0.0' in text, "a series begins at zero, not with an event"
    assert 'gatehouse_score_count{name="other"} 1.0' in text
    assert not any(word in text for word in ("run-1", "words", "made up"))


def test_a_missing_score_names_its_code_and_no_text() -> None:
    assert str(NoScore("timeout", "after 20 s")) == "timeout: after 20 s"
