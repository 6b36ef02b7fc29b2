"""The command and its table: reproducible, complete, and plain about who cannot take part."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evals.__main__ import app
from evals.designs import compare
from evals.designs.compare import PLANTED, Opened, Plan, all_cases
from evals.designs.lineup import LINEUP
from evals.designs.outcome import Outcome
from evals.designs.quoting import Quoting
from evals.designs.shelf import KeptScores
from evals.designs.table import Ran, grid, markdown, paths_of, row_of
from evals.designs.web import LoopbackWeb
from evals.golden_set import load_cases
from service.llm.quote import Thresholds
from service.settings import load_settings
from tests.evals.designs.benches import bench_of, case_of
from tests.fakes import FixedReranker


def opened(folder: Path, real: Quoting | None = None) -> Opened:
    return Opened(bench_of(folder), KeptScores(FixedReranker(), folder / "scores.json"), real)


def outcome(number: int, *, right: bool = True, status: str = "answered", calls: int = 4) -> Outcome:
    return Outcome(
        f"c{number}", "plain", "answered", status, right, False, calls, 0, 0, (), "store", 100, 0.002, 1.5, "a"
    )


@pytest.mark.parametrize("limit", [10, 200])
def test_a_limit_takes_cases_from_all_over_the_set(limit: int) -> None:
    every = all_cases()
    places = [every.index(case) for case in all_cases(limit)]
    assert len(places) == limit
    assert places[0] == 0
    gaps = [later - earlier for earlier, later in pairwise([*places, len(every)])]
    assert max(gaps) - min(gaps) <= 1


async def test_the_same_seed_gives_the_same_table_byte_for_byte(tmp_path: Path) -> None:
    plan, cases = Plan("scripted", (0.0, 0.15), 3), [case_of(1), case_of(), case_of(1, 2, 3)]
    reports = [await compare.compare(plan, opened(tmp_path / name), cases, lambda _: None) for name in "ab"]
    assert markdown(reports[0]) == markdown(reports[1])
    assert reports[0] == reports[1]


async def test_every_design_has_a_row_at_every_error_rate(tmp_path: Path) -> None:
    report = await compare.compare(Plan("scripted", (0.0, 0.05), 1), opened(tmp_path), [case_of(1)], lambda _: None)
    assert [(row["key"], row["errors"]) for row in report["rows"]] == [
        (entry.key, rate) for rate in (0.0, 0.05) for entry in LINEUP
    ]
    assert report["left_out"] == []
    assert "How each design degrades" in markdown(report)


async def test_quote_runs_where_a_design_asks_nothing_of_language_and_the_table_says_where_not(tmp_path: Path) -> None:
    quote = Quoting(FixedReranker(lambda _, __: 0.9), Thresholds())
    report = await compare.compare(Plan("quote", (0.0,), 1), opened(tmp_path, quote), [case_of(1)], lambda _: None)
    assert [row["key"] for row in report["rows"]] == ["3", "3b", "4b", "5", "5b", "7d", "7v"]
    assert "2. Three-way adaptive: it asks its model to direct and to route, which quote cannot." in report["left_out"]
    assert "## Left out" in markdown(report)
    assert {row["calls_max"] for row in report["rows"]} == {0}


def test_the_files_are_written_where_they_were_asked_for(tmp_path: Path) -> None:
    row = row_of(Ran("1", "One", 0.0, (outcome(1),)), seed=1)
    report = {"command": "c", "notes": [], "time": "modelled", "rows": [row], "left_out": [], "outcomes": {"1": []}}
    paths = compare.write(report, tmp_path / "new" / "folder")
    assert [path.name for path in paths] == ["designs.md", "designs.json", "designs-outcomes.json"]
    assert json.loads(paths[1].read_text())["rows"][0]["right_answers"] == 1


def test_a_row_counts_by_hand() -> None:
    outcomes = (
        outcome(1),
        outcome(2, right=False, calls=10),
        outcome(3, right=False, status="partial"),
        outcome(4, right=False, status="stopped", calls=28),
    )
    row = row_of(Ran("1", "One", None, outcomes), seed=1)
    assert (row["right_answers"], row["wrong"], row["warned"], row["stopped"]) == (1, 1, 1, 1)
    assert (row["calls_mean"][0], row["calls_max"], row["usd_per_1000"]) == (11.5, 28, 2.0)
    assert row["right_share"][0] == 0.25
    assert row["right_share"][1] <= 0.25 <= row["right_share"][2]


def test_paths_give_the_fewest_the_mean_and_the_most_calls() -> None:
    assert paths_of([outcome(1, calls=9), outcome(2, calls=11)]) == {
        "store": {"cases": 2, "calls": [9, 10, 11], "searches": 0}
    }


def test_a_grid_is_markdown() -> None:
    assert grid(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_a_plan_names_its_command() -> None:
    assert Plan("scripted", (0.0, 0.05), 2).command == (
        "python -m evals designs --model scripted --errors 0,0.05 --seed 2"
    )
    assert Plan("quote", (0.0,), 1, limit=9).command == "python -m evals designs --model quote --seed 1 --limit 9"


@pytest.mark.parametrize("errors", ["a", "2", "-0.1", "0,0", "", "nan"])
def test_error_rates_that_are_no_shares_are_refused(errors: str) -> None:
    result = CliRunner().invoke(app, ["designs", "--errors", errors])
    assert (result.exit_code, "shares from 0 to 1" in result.output) == (2, True)


def test_claude_without_a_key_says_which_setting_is_missing() -> None:
    from evals.designs.claude import connect_claude
    from service.errors import OperatorError

    settings = load_settings().model_copy(update={"ANTHROPIC_BASE_URL": ""})
    with pytest.raises(OperatorError, match="ANTHROPIC_API_KEY"):
        connect_claude(settings)


def test_a_limit_spreads_over_all_cases() -> None:
    every, some = all_cases(), all_cases(20)
    assert len(some) == 20
    assert {case.id for case in some} < {case.id for case in every}
    assert every[-1].kind == "private"


def test_each_planted_fact_stands_on_its_page_and_no_question_gives_it_away() -> None:
    texts = {page.whole().address: page.whole().text for page in LoopbackWeb.load().pages}
    for case in load_cases(PLANTED):
        assert case.web_search == (case.kind == "web-only")
        for expected in case.expected:
            assert expected.text in texts[expected.address]
        assert not any(fact in case.question for fact in case.facts)


async def test_kept_scores_are_read_again_and_not_asked_again(tmp_path: Path) -> None:
    asked: list[str] = []

    def rule(_: str, text: str) -> float:
        asked.append(text)
        return 0.5

    first = KeptScores(FixedReranker(rule), tmp_path / "scores.json")
    assert await first.scores("q", ["a", "b", "a"]) == [0.5, 0.5, 0.5]
    first.save()
    second = KeptScores(FixedReranker(rule), tmp_path / "scores.json")
    assert await second.scores("q", ["b", "c"]) == [0.5, 0.5]
    assert asked == ["a", "b", "c"]
