"""What a model may get wrong about its sources, and what the stream then says: citation, verdict, answer."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import FixedKnowledge, FixedReranker, ScriptedModel, passage, services
from tests.running import House
from tests.wire import of

RULE = "A firm must keep its records for 15 years after the end."
OTHER = "An auditor must report a shortfall of MC\u00a01,500 at once."


async def run(folder: Path, draft: str, *, support: float = 0.8) -> list[dict[str, Any]]:
    knowledge = FixedKnowledge([passage(1, RULE), passage(2, OTHER)])
    world = replace(services(folder, knowledge=knowledge), support=FixedReranker(lambda _, __: support))
    return await House(world, ScriptedModel(draft=lambda *_: draft)).ask()


def grounded(frames: list[dict[str, Any]]) -> tuple[str, str]:
    last = [item for item in of(frames, "verdict") if item["gate"] == "grounded"][-1]
    return last["result"], last["reason"]


async def test_a_true_quote_is_verified_and_passes(tmp_path: Path) -> None:
    frames = await run(tmp_path, "It says “keep its records for 15 years” [[1]].")
    assert [(item["n"], item["status"]) for item in frames[-1]["citations"]] == [(1, "verified")]
    assert (grounded(frames), frames[-1]["status"]) == (("pass", "passed"), "answered")


@pytest.mark.parametrize(
    "draft",
    [
        pytest.param("It says “a firm may burn its records” [[1]].", id="invents a quote"),
        pytest.param("It says “keep its records for 15 years” [[2]].", id="cites the wrong source"),
        pytest.param("It says “keep its records for 16 years” [[1]].", id="changes one number"),
        pytest.param("It says “keep its records for 5 years” [[1]].", id="drops a digit"),
        pytest.param("It says “a shortfall of MC 1500 at once” [[2]].", id="drops a separator"),
        pytest.param("It says “Keep its records for 15 years” [[1]].", id="changes a letter's case"),
    ],
)
async def test_a_quote_that_does_not_stand_in_its_source_is_unsupported_and_fails(tmp_path: Path, draft: str) -> None:
    frames = await run(tmp_path, draft)
    assert {item["status"] for item in frames[-1]["citations"]} == {"unsupported"}
    assert grounded(frames) == ("fail", "quote_not_found")
    assert (frames[-1]["status"], "does not stand" in frames[-1]["warning"]) == ("partial", True)


async def test_a_number_that_is_no_source_fails_and_is_never_the_answer(tmp_path: Path) -> None:
    frames = await run(tmp_path, "It says “keep its records for 15 years” [[9]].")
    assert grounded(frames) == ("fail", "unresolved_marker")
    assert (frames[-1]["status"], frames[-1]["citations"]) == ("refused", [])
    assert "[[9]]" not in frames[-1]["answer"]


@pytest.mark.parametrize(("support", "status"), [(0.8, "supported"), (0.05, "unsupported")])
async def test_a_paraphrase_has_the_status_of_its_support(tmp_path: Path, support: float, status: str) -> None:
    frames = await run(tmp_path, "Records are kept for fifteen years [[1]].", support=support)
    assert [(item["status"], item["quote"]) for item in frames[-1]["citations"]] == [(status, RULE)]


async def test_a_term_in_quotation_marks_does_not_verify_what_is_said_of_it(tmp_path: Path) -> None:
    frames = await run(tmp_path, "Its “records” are kept for ten years [[1]].", support=0.05)
    [citation] = frames[-1]["citations"]
    assert (citation["status"], citation["support"], citation["quote"]) == ("unsupported", 0.05, RULE)


async def test_a_sentence_that_names_a_term_has_the_status_of_its_support(tmp_path: Path) -> None:
    frames = await run(tmp_path, "Its “records” are kept for fifteen years [[1]].")
    [citation] = frames[-1]["citations"]
    assert (citation["status"], citation["support"], citation["quote"]) == ("supported", 0.8, RULE)
    assert grounded(frames) == ("pass", "passed")
