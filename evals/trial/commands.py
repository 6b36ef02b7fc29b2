"""`python -m evals run | compare | gate | show`: the golden set, asked, compared, held against limits, explained."""

import asyncio
import json
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from evals.golden_set import Case
from evals.trial.bench import about_of, open_bench, run_trial, shown
from evals.trial.cases import load_trial
from evals.trial.observed import Observed
from evals.trial.trial import Trial
from service.settings import Settings, load_settings


RECORDS = "records.jsonl"


class Model(StrEnum):
    quote = "quote"
    claude = "claude"


class Half(StrEnum):
    dev = "dev"
    report = "report"
    all = "all"


def settings_of(model: Model, data_dir: Path) -> Settings:
    given = load_settings().model_dump() | {
        "DATA_DIR": data_dir,
        "MILVUS_URI": "",
        "MODEL_PROVIDER": model.value,
        "MODEL_FALLBACK": "none",
    }
    return Settings.model_validate(given)


def run(
    model: Annotated[Model, typer.Option(help="Which answer model answers.")] = Model.quote,
    split: Annotated[Half, typer.Option(help="`report` is kept for reports: nothing is tuned on it.")] = Half.all,
    out: Annotated[Path | None, typer.Option(help="Folder of the report; build/evals/MODEL by default.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Ask only so many cases, spread over all kinds.")] = None,
    remember: Annotated[
        bool, typer.Option("--remember", help="Score each pair once: faster, but the times are not the product's.")
    ] = False,
) -> None:
    """Ask the golden set of the product's own graph; write report.json, report.md and report.html."""
    cases = load_trial(split.value, limit)
    folder = out or Path("build/evals") / model.value
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        trial = asyncio.run(
            trial_of(settings_of(model, Path(temporary)), model.value, split.value, cases, remember, folder)
        )
    (folder / "report.json").write_text(json.dumps(trial.as_json()))


async def trial_of(
    settings: Settings, model: str, split: str, cases: list[Case], remember: bool, folder: Path
) -> Trial:
    async with open_bench(settings, progress, remember=remember) as bench:
        about = about_of(bench.installation, model, split, cases, bench.judge.name)
        with (folder / RECORDS).open("w", encoding="utf-8") as records:

            def keep(observed: Observed, number: int, of: int) -> None:
                records.write(json.dumps({"case": observed.case.id, "record": observed.record}) + "\n")
                told(observed, number, of)

            return await run_trial(bench, cases, about, keep)


def progress(line: str) -> None:
    typer.echo(f"# {line}", err=True)


def told(observed: Observed, number: int, of: int) -> None:
    mark = "ok " if observed.right else "BAD"
    typer.echo(f"{number:3}/{of} {mark} {observed.case.id:6} {shown(observed.record)} {observed.lost_at}")
