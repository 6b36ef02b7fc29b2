"""`python -m evals run | compare | gate | show`: the golden set, asked, compared, held against limits, explained."""

import asyncio
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from evals.golden_set import Case
from evals.trial import gate as limits
from evals.trial import markdown, worst
from evals.trial.bench import about_of, open_bench, run_trial, shown
from evals.trial.cases import find_case, load_trial
from evals.trial.compare import Comparison, compare
from evals.trial.judge import judge_of
from evals.trial.observed import Observed
from evals.trial.page import page
from evals.trial.route import RECORDS, explained, stored_record
from evals.trial.trial import Trial
from service.settings import Settings, load_settings

BUILD = Path("build/evals")


class Model(StrEnum):
    quote = "quote"
    claude = "claude"


class Half(StrEnum):
    dev = "dev"
    report = "report"
    all = "all"


DataDir = Annotated[Path | None, typer.Option(help="Keep the store here; a temporary folder otherwise.")]
Report = Annotated[Path, typer.Argument(help="A report.json of `run`, or its folder.")]
Answering = Annotated[Model, typer.Option(help="Which answer model answers.")]


@contextmanager
def faults_named() -> Iterator[None]:
    """A wrong argument or file ends in its reason, not in a traceback."""
    try:
        yield
    except ValueError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from None


def run(
    model: Answering = Model.quote,
    split: Annotated[Half, typer.Option(help="`report` is kept for reports: nothing is tuned on it.")] = Half.all,
    out: Annotated[Path | None, typer.Option(help="Folder of the report; build/evals/MODEL by default.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Ask only so many cases, spread over the set.")] = None,
    against: Annotated[Path | None, typer.Option(help="Report to list the flips from; the gate's baseline.")] = None,
    remember: Annotated[
        bool, typer.Option("--remember", help="Score each pair once: faster, but the times are not the product's.")
    ] = False,
    data_dir: DataDir = None,
) -> None:
    """Ask the golden set of the product's own graph; write report.json, report.md and report.html."""
    with faults_named():
        cases, folder = load_trial(split.value, limit), out or BUILD / model.value
        earlier = limits.load_trial_report(against) if against else baseline_of(model)
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as temporary:
            settings = settings_of(model, data_dir or Path(temporary))
            trial = asyncio.run(trial_of(settings, split.value, cases, remember, folder))
        write(trial, folder, compare(earlier, trial) if earlier else None)
    typer.echo(worst.worst_paragraph(trial))
    typer.echo(f"{trial.seconds:.0f} s ({trial.cpu_seconds:.0f} s of processor time); report in {folder}/report.html")


def settings_of(model: Model, data_dir: Path) -> Settings:
    """The settings of the environment, over a store of this trial's own. Raises `ValueError` where no key is set."""
    settings = load_settings()
    if model is Model.claude and not (settings.ANTHROPIC_API_KEY.get_secret_value() or settings.ANTHROPIC_BASE_URL):
        raise ValueError("--model claude needs ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL. Set one, or use --model quote.")
    # No fallback: an answer of Quote must not pass for one of Claude.
    given = {"DATA_DIR": data_dir, "MILVUS_URI": "", "MODEL_PROVIDER": model.value, "MODEL_FALLBACK": "none"}
    return settings.model_copy(update=given)


async def trial_of(settings: Settings, split: str, cases: Sequence[Case], remember: bool, folder: Path) -> Trial:
    async with (
        judge_of(settings, progress) as judge,
        open_bench(settings, progress, remember=remember, judge=judge) as bench,
    ):
        about = about_of(bench, settings.MODEL_PROVIDER, split, cases)
        with (folder / RECORDS).open("w", encoding="utf-8") as records:

            def keep(observed: Observed, number: int, of: int) -> None:
                records.write(json.dumps({"case": observed.case.id, "record": observed.record}) + "\n")
                told(observed, number, of)

            return await run_trial(bench, cases, about, keep)


def progress(line: str) -> None:
    typer.echo(f"# {line}", err=True)


def told(observed: Observed, number: int, of: int) -> None:
    lost = f", lost at {observed.lost_at}" if observed.lost_at else ""
    mark = "ok " if observed.right else "BAD"
    progress(f"{number:3}/{of} {mark} {observed.case.id:6} {shown(observed.record)}{lost}")


def write(trial: Trial, folder: Path, against: Comparison | None) -> None:
    (folder / "report.json").write_text(as_text(trial), encoding="utf-8")
    (folder / "report.md").write_text(markdown.report(trial, against), encoding="utf-8")
    (folder / "report.html").write_text(page(trial, against), encoding="utf-8")


def as_text(trial: Trial) -> str:
    """JSON with a line for each case, so that two reports differ in lines that can be read."""
    told = trial.as_json()
    cases = ",\n".join(json.dumps(case, ensure_ascii=False) for case in told["numbers"].pop("cases"))
    numbers = json.dumps(told["numbers"], ensure_ascii=False, indent=1).removesuffix("\n}")
    parts = [f'"about": {json.dumps(told["about"], ensure_ascii=False, indent=1)}']
    parts += [f'"numbers": {numbers},\n"cases": [\n{cases}\n]}}', f'"times": {json.dumps(told["times"])}']
    return "{\n" + ",\n".join(parts) + "\n}\n"


def baseline_of(model: Model) -> Trial | None:
    """The baseline that the gate's file names, where there is one."""
    path = limits.load_limits(model.value).baseline
    return limits.load_trial_report(path) if path and path.exists() else None


def compare_reports(a: Report, b: Report) -> None:
    """Compare two reports case by case: what differs, with intervals, and which cases flipped."""
    with faults_named():
        found = compare(limits.load_trial_report(a), limits.load_trial_report(b))
    typer.echo(markdown.comparison(found))


def gate(
    report: Annotated[Path, typer.Argument(help="A report.json of `run`, or its folder.")] = BUILD / "quote",
    limits_file: Annotated[Path, typer.Option("--limits", help="The file of thresholds.")] = limits.LIMITS,
    baseline: Annotated[Path | None, typer.Option(help="Another baseline than the one in the file.")] = None,
) -> None:
    """Hold a report against evals/gate.toml; exit with 1 on a real drop, and say where."""
    with faults_named():
        trial = limits.load_trial_report(report)
        held = limits.load_limits(trial.model, limits_file)
        path = baseline or held.baseline
        earlier = limits.load_trial_report(path) if path else None
        found = limits.failures(trial, held, earlier)
        typer.echo(limits.verdict(found, compare(earlier, trial) if earlier else None))
    if found:
        raise typer.Exit(1)


def show(
    case: Annotated[str, typer.Argument(help="Id of the case, such as a01 or c150.")],
    model: Answering = Model.quote,
    folder: Annotated[Path | None, typer.Option("--from", help="Folder of the run; build/evals/MODEL.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Ask it now, though a run has asked it.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Print the route of one case as `audit show` does, below its labels; asks it where no run has."""
    with faults_named():
        found = find_case(case)
        record = None if again else stored_record(folder or BUILD / model.value, case)
        if record is None:
            with tempfile.TemporaryDirectory() as temporary:
                record = dict(asyncio.run(asked_now(settings_of(model, data_dir or Path(temporary)), found)).record)
    typer.echo(explained(found, record), nl=False)


async def asked_now(settings: Settings, case: Case) -> Observed:
    async with open_bench(settings, progress) as bench:
        return await bench.ask(case)


def add_to(app: typer.Typer) -> None:
    app.command()(run)
    app.command("compare")(compare_reports)
    app.command()(gate)
    app.command()(show)
