"""Who may judge, where its key goes, and what is opened for it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from service.audit.log import AuditLog
from service.errors import OperatorError
from service.knowledge.snapshots import Snapshots
from service.observe.scoring import NoScores, Scoring
from service.observing import open_observers, states_of
from service.scores import mask_of, open_scores
from service.settings import Settings
from tests.audit.logs import audit_log, bodies
from tests.fakes import ScriptedModel, services
from tests.messages_server import running_messages_server
from tests.observe.judges import judge_by_containment
from tests.running import House
from tests.served import eventually

JUDGED = {"JUDGE_MODEL": "a-judge", "JUDGE_BASE_URL": "http://127.0.0.1:9", "SCORE_SAMPLE_RATE": 1.0}


def settings(**given: Any) -> Settings:
    return Settings.model_validate(given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"SCORE_SAMPLE_RATE": 0.5}, "needs JUDGE_MODEL"),
        ({"SCORE_SAMPLE_RATE": 1.5}, "less than or equal to 1"),
        ({"SCORE_SAMPLE_RATE": -0.1}, "greater than or equal to 0"),
        ({**JUDGED, "JUDGE_MODEL": "claude-sonnet-5-5"}, "is also ANSWER_MODEL"),
        ({**JUDGED, "JUDGE_MODEL": "claude-haiku-5-5"}, "is also GATE_MODEL"),
        ({**JUDGED, "JUDGE_MODEL": "claude-haiku-5-5-20260801"}, "is also GATE_MODEL"),
        ({**JUDGED, "JUDGE_MODEL": "A", "ANSWER_MODEL": "a-latest"}, "is also ANSWER_MODEL"),
        ({"JUDGE_MODEL": "a-judge", "SCORE_SAMPLE_RATE": 1.0}, "needs JUDGE_BASE_URL"),
        ({**JUDGED, "JUDGE_BASE_URL": "judge.example.org"}, "match pattern"),
        ({**JUDGED, "SCORE_QUEUE": 0}, "greater than or equal to 1"),
    ],
)
def test_a_judge_that_cannot_judge_is_refused_with_the_way_out(given: Mapping[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        settings(**given)


def test_a_judge_named_ahead_of_its_share_may_wait_for_a_key() -> None:
    assert settings(JUDGE_MODEL="a-judge").SCORE_SAMPLE_RATE == 0


def test_the_key_for_the_models_goes_to_no_other_address() -> None:
    assert settings(**JUDGED, ANTHROPIC_API_KEY="ours").judge_key() == ""
    assert settings(**JUDGED, ANTHROPIC_API_KEY="ours", JUDGE_API_KEY="its").judge_key() == "its"
    at_the_same_place = {"JUDGE_MODEL": "a-judge", "SCORE_SAMPLE_RATE": 1.0, "ANTHROPIC_API_KEY": "ours"}
    assert settings(**at_the_same_place).judge_key() == "ours"
    assert settings(**at_the_same_place, JUDGE_API_KEY="its").judge_key() == "its"


def test_what_the_judge_reads_is_masked_unless_the_operator_says_otherwise(tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("Zephyrine Oakhurst\n")
    text = "Zephyrine Oakhurst (z@example.org, IBAN DE89 3704 0044 0532 0130 00) asks about [[1]].\n- a line"
    masked = mask_of(settings(**JUDGED, WEB_MASK_FILE=str(names)))(text)
    assert not any(private in masked for private in ("Zephyrine", "z@example.org", "3704"))
    assert masked.endswith("asks about [[1]].\n- a line"), "markers and lines are what citations are counted by"
    assert mask_of(settings(**JUDGED, JUDGE_MASKED=False))(text) == text


def test_a_mask_file_that_is_not_there_is_said_at_start(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="WEB_MASK_FILE"):
        mask_of(settings(**JUDGED, WEB_MASK_FILE=str(tmp_path / "none.txt")))


@pytest.fixture
async def audit(tmp_path: Path) -> AsyncIterator[AuditLog]:
    async with audit_log(tmp_path / "audit") as log:
        yield log


@pytest.mark.parametrize("given", [{}, {"JUDGE_MODEL": "a-judge", "JUDGE_BASE_URL": "http://127.0.0.1:9"}])
async def test_without_a_judge_and_a_share_nothing_is_opened(
    tmp_path: Path, audit: AuditLog, given: Mapping[str, Any]
) -> None:
    async with AsyncExitStack() as stack:
        assert isinstance(await open_scores(settings(**given), stack, audit, Snapshots(tmp_path), []), NoScores)


async def test_a_service_with_a_judge_scores_its_answers_and_says_so_on_readyz(tmp_path: Path, audit: AuditLog) -> None:
    async with running_messages_server() as peer, AsyncExitStack() as stack:
        peer.respond = judge_by_containment
        parts = services(tmp_path / "snapshots")
        given = settings(**{**JUDGED, "JUDGE_BASE_URL": peer.url})
        observers = await open_observers(given, stack, audit, parts.snapshots)
        [scoring] = [observer for observer in observers if isinstance(observer, Scoring)]
        await House(parts, ScriptedModel(), audit=audit, observers=observers).ask()
        await eventually(lambda: scoring.scored == 1, 20)
        [said] = [state for state in states_of(observers) if state.name == "scores"]
    assert (said.ok, said.detail) == (True, "a-judge: 1 scored, 0 failed, 0 waiting, 0 dropped")
    [record] = bodies(tmp_path / "audit", "score")
    assert {score["name"] for score in record["scores"]} == {
        "answer_relevancy",
        "citation_support",
        "contextual_relevancy",
        "faithfulness",
    }
    assert record["masked"]
    assert record["judge"].keys() == {"model", "deepeval", "citation_support"}
