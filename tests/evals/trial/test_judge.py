"""A trial's judge: DeepEval's metrics over a real socket, asked of what the last draft was written from."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evals.golden_set import ANY_OF
from evals.seed import Expected
from evals.trial.bench import about_of, as_written, run_trial
from evals.trial.judge import JUDGED, NoJudge, expected_answer, judge_of
from evals.trial.trial import Trial
from service.observe.scorable import Scorable
from service.settings import Settings
from tests.evals.trial.made import case, observed, one_pass, record
from tests.evals.trial.test_bench import bench_of, parts
from tests.messages_server import MessagesServer, fails, running_messages_server
from tests.observe.judges import judge_by_containment

SOURCES = {1: "A firm must keep records of complaints for five years.", 2: "The return is signed by a director."}
ANSWER = Scorable("How long must a firm keep records?", "“A firm must keep records for five years.” [[1]]", SOURCES)
WANTED = "A firm must keep records of complaints for five years."


def judged_by(peer: MessagesServer, **given: Any) -> Settings:
    return Settings.model_validate({"JUDGE_MODEL": "a-judge", "JUDGE_BASE_URL": peer.url, **given})


async def scores(settings: Settings, answer: Scorable, expected: str, told: list[str]) -> dict[str, float]:
    async with judge_of(settings, told.append) as judge:
        return dict(await judge.scores(answer, expected))


async def test_a_judge_that_the_settings_name_gives_the_four_scores() -> None:
    told: list[str] = []
    async with running_messages_server() as peer:
        peer.respond = judge_by_containment
        found = await scores(judged_by(peer), ANSWER, WANTED, told)
        turned = Scorable(ANSWER.question, ANSWER.answer, {2: SOURCES[2], 1: SOURCES[1]})
        behind = await scores(judged_by(peer), turned, WANTED, told)
        nowhere = await scores(judged_by(peer), ANSWER, "It must tell the ombudsman.", told)
    assert found == dict.fromkeys(JUDGED, 1.0)
    assert behind["contextual_precision"] == 0.5, "the source that was needed stands second"
    assert nowhere["contextual_recall"] == 0.0
    assert told == []


async def test_without_an_expected_answer_only_the_answer_is_scored() -> None:
    async with running_messages_server() as peer:
        peer.respond = judge_by_containment
        found = await scores(judged_by(peer), ANSWER, "", [])
    assert set(found) == {"faithfulness", "answer_relevancy"}


async def test_a_judge_that_is_down_gives_no_score_and_each_that_is_missing_is_named() -> None:
    told: list[str] = []
    async with running_messages_server() as peer:
        peer.respond = lambda _: fails(401)
        found = await scores(judged_by(peer), ANSWER, WANTED, told)
    assert found == {}
    assert sorted(told) == [f"no {name} from a-judge: unavailable" for name in sorted(JUDGED)]


@pytest.mark.parametrize("masked", [True, False])
async def test_the_judge_reads_what_a_live_judge_would_read(masked: bool) -> None:
    address = "anna@example.org"
    answer = Scorable(f"May {address} keep records?", f"Ask {address} [[1]].", {1: f"Ask {address}."})
    async with running_messages_server() as peer:
        peer.respond = judge_by_containment
        await scores(judged_by(peer, JUDGE_MASKED=masked), answer, f"Ask {address}.", [])
        read = "\n".join(asked.text for asked in peer.asked)
    assert (address in read) is not masked


async def test_without_a_judge_nothing_is_asked_and_nothing_scored() -> None:
    async with judge_of(Settings(), lambda _: None) as judge:
        assert isinstance(judge, NoJudge)
        assert await judge.scores(ANSWER, WANTED) == {}


async def test_a_judge_without_an_address_or_a_key_is_refused_with_the_way_out() -> None:
    settings = Settings.model_validate({"JUDGE_MODEL": "a-judge"})
    with pytest.raises(ValueError, match="needs JUDGE_BASE_URL"):
        await judge_of(settings, lambda _: None).__aenter__()


def test_the_judge_reads_what_the_last_pass_kept_in_its_order() -> None:
    first, last = one_pass([1, 2], grades={1: "pass", 2: "fail"}), one_pass([3, 2], grades={3: "pass", 2: "pass"})
    told = record(
        first, last, answer="Two years [[2]].", citations=[(1, "supported"), (2, "supported"), (3, "supported")]
    )
    assert list(as_written(observed(case(2), told)).sources) == [3, 2]


@pytest.mark.parametrize(
    ("texts", "facts", "any_of", "said"),
    [
        (["for five years"], ["Five years"], False, "for five years."),
        (["Unaudited profit."], ["Half"], False, "Unaudited profit.\nHalf."),
        (["one way", "another way"], ["ten days"], True, "ten days."),
        ([], [], False, ""),
    ],
)
def test_the_expected_answer_is_what_the_labels_hold(
    texts: list[str], facts: list[str], any_of: bool, said: str
) -> None:
    labelled = tuple(Expected("a.html", "R 1", text) for text in texts)
    asked = case(*range(1, len(texts) + 1), facts=facts, tags=("plain", ANY_OF) if any_of else ("plain",))
    assert expected_answer(replace(asked, expected=labelled)) == said


async def test_a_trial_with_a_judge_has_its_scores_among_the_measures(tmp_path: Path) -> None:
    trial = await judged_trial(tmp_path)
    assert trial.about["judge"] == "a-judge"
    found = {name: (estimate.value, estimate.cases) for name, estimate in trial.estimates().items()}
    assert {name for name in found if name.startswith("judge: ")} == {
        f"judge: {name.replace('_', ' ')}" for name in JUDGED
    }
    assert found["judge: contextual precision"] == found["judge: contextual recall"] == (1.0, 2)


async def judged_trial(tmp_path: Path) -> Trial:
    asked = [case(n, case_id=f"a{n}", question=f"How long must a firm keep record {n}?") for n in (1, 2)]
    async with running_messages_server() as peer, parts(tmp_path) as made:
        peer.respond = judge_by_containment
        async with judge_of(judged_by(peer), lambda _: None) as judge:
            bench = bench_of(made, tmp_path)
            bench.judge = judge
            return await run_trial(bench, asked, about_of(bench, "quote", "all", asked), lambda *_: None)
