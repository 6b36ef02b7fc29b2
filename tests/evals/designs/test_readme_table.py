"""The table of the README is the command's: same line-up, the default plan, all cases, and no measured time in it."""

import json

from evals.designs.compare import Plan, all_cases
from evals.designs.lineup import LINEUP
from evals.designs.table import RESULTS, degradation, main_lines
from tests.readme import README

report = json.loads(RESULTS.read_text(encoding="utf-8"))
DEFAULT = Plan("scripted", (0.0, 0.05, 0.15), 1)


def test_the_results_are_of_the_command_that_they_name_and_of_the_whole_line_up() -> None:
    assert report["command"] == DEFAULT.command
    assert {row["key"] for row in report["rows"]} == {entry.key for entry in LINEUP}
    assert {row["design"] for row in report["rows"]} == {entry.name for entry in LINEUP}
    assert {row["cases"] for row in report["rows"]} == {len(all_cases())}


def test_gatehouse_searches_nothing_that_nobody_asked_for_and_sends_no_client_matter_out() -> None:
    ours = [row for row in report["rows"] if row["key"].startswith("7")]
    assert {(row["unasked_searches"], row["private_sent"]) for row in ours} == {(0, 0)}
    assert {row["failed"] for row in report["rows"]} == {0}


def test_the_readme_names_the_command_and_shows_its_numbers() -> None:
    readme = README.read_text(encoding="utf-8")
    assert f".venv/bin/{DEFAULT.command}\n" in readme
    assert f"{len(all_cases())} cases:" in readme
    assert degradation(report["rows"]) in readme
    for line in main_lines([row for row in report["rows"] if row["errors"] == 0.05]):
        assert f"| {' | '.join(line[:5])} |" in readme
