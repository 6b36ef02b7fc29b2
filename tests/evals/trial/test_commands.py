"""The four commands as they are typed."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evals.__main__ import app, main
from evals.trial.commands import as_text
from evals.trial.trial import Trial
from tests.evals.trial.made import one_pass, record, row, trial

runner = CliRunner()

LIMITS = '[quote]\nbaseline = "good.json"\nnever = ["web egress when off"]\n[quote.drops]\n"answerable: right" = 0.01\n'
KEPT_IN = {"web egress when off": (0.0, 1.0)}
GOOD = trial([row(f"a{n}", parts=KEPT_IN) for n in range(30)])
BAD = trial([row(f"a{n}", right=n > 9, parts=KEPT_IN) for n in range(30)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "good.json").write_text(as_text(GOOD))
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "report.json").write_text(as_text(BAD))
    (tmp_path / "gate.toml").write_text(LIMITS)
    return tmp_path


def test_gate_ends_with_1_on_a_real_drop_and_says_where(folder: Path) -> None:
    result = runner.invoke(app, ["gate", str(folder / "bad"), "--limits", str(folder / "gate.toml")])
    assert result.exit_code == 1
    assert "FAIL answerable: right: 1.000 in the baseline, 0.667 now" in result.output
    assert "Where it begins: reflect." in result.output


def test_gate_ends_with_0_where_every_limit_holds(folder: Path) -> None:
    result = runner.invoke(app, ["gate", str(folder / "good.json"), "--limits", str(folder / "gate.toml")])
    assert (result.exit_code, result.output) == (0, "The gate is open: every limit holds.\n")


def test_another_baseline_may_be_given(folder: Path) -> None:
    limits = ["--limits", str(folder / "gate.toml"), "--baseline", str(folder / "bad")]
    assert runner.invoke(app, ["gate", str(folder / "bad"), *limits]).exit_code == 0


def test_compare_lists_the_flips(folder: Path) -> None:
    result = runner.invoke(app, ["compare", str(folder / "good.json"), str(folder / "bad")])
    assert result.exit_code == 0
    assert "Gained: 0; lost: 10." in result.output
    assert "| a3 | plain | LOST | right | partial, lost at generate |" in result.output


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["gate", "{}/none"], "no report can be read there. Make one with `python -m evals run`"),
        (["compare", "{}/gate.toml", "{}/bad"], "it is no report of `python -m evals run`"),
        (["show", "zzz"], "There is no case 'zzz'"),
    ],
)
def test_a_wrong_argument_ends_with_2_and_what_to_do(folder: Path, command: list[str], said: str) -> None:
    result = runner.invoke(app, [part.format(folder) for part in command])
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.output


def test_a_trial_of_claude_without_a_key_says_which_to_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.setenv(name, "")
    result = runner.invoke(app, ["run", "--model", "claude", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "needs ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL" in result.stderr


def test_a_fault_of_the_installation_ends_with_1_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("TOP_N", "0")
    monkeypatch.setattr(sys, "argv", ["evals", "run", "--limit", "1", "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as exited:
        main()
    assert exited.value.code == 1
    assert "TOP_N" in capsys.readouterr().err


def test_show_reads_the_route_that_a_run_kept(tmp_path: Path) -> None:
    told = record(one_pass([1], grades={1: "pass"}), answer="It is so.")
    (tmp_path / "records.jsonl").write_text(json.dumps({"case": "a01", "record": told}) + "\n")
    # The records made by hand have no more of a source than its number.
    result = runner.invoke(app, ["show", "a01", "--from", str(tmp_path)])
    assert result.exit_code == 0
    assert result.output.startswith("Case a01 (plain, near-miss; dev): wanted answered")
    assert "1 graded, 1 kept:" in result.output
    assert "Answer: It is so." in result.output


def test_a_stored_report_has_a_line_for_each_case(folder: Path) -> None:
    lines = (folder / "good.json").read_text().splitlines()
    assert sum(line.startswith('{"id": "a') for line in lines) == 30
    assert Trial.of_json(json.loads("\n".join(lines))) == GOOD
