"""`python -m evals`: offline runs of the product over the sample knowledge base."""

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from evals import ablation as candidates
from evals import obliqa_run
from evals.designs import compare
from evals.designs.table import markdown
from evals.fit import fitted
from evals.house import open_house
from evals.near_miss import near_miss_questions
from evals.obliqa import read
from evals.seed import Result, load_questions, report
from evals.trial import commands as trial
from evals.usage import usage
from service.errors import CallerError, GatehouseError
from service.llm.quote import Thresholds
from service.settings import Settings, load_settings

app = typer.Typer(no_args_is_help=True, add_completion=False)
trial.add_to(app)


@app.callback()
def evals() -> None:
    """Offline runs of the product over the sample knowledge base."""


@app.command()
def seed(
    fit: Annotated[bool, typer.Option("--fit", help="Search thresholds on the development half first.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print each question's result.")] = False,
    data_dir: Annotated[Path | None, typer.Option(help="Keep the store here; a temporary folder otherwise.")] = None,
) -> None:
    """Ask the labelled sample questions and the near-miss pairs in Quote mode; print what was found and answered."""
    with tempfile.TemporaryDirectory() as temporary:
        settings = load_settings().model_copy(update={"DATA_DIR": data_dir or Path(temporary), "MILVUS_URI": ""})
        asyncio.run(seed_run(settings, fit, show))


@app.command()
def audit(
    records: Annotated[int, typer.Option(min=100, help="Records in the log; 100,000 take 1.3 GB of disk.")] = 100_000,
) -> None:
    """Write an audit log in a temporary folder, and time verifying, appending and finding."""
    from evals.audit import measure

    with tempfile.TemporaryDirectory() as temporary:
        typer.echo(measure(Path(temporary) / "audit", records).table())


async def seed_run(settings: Settings, fit: bool, show: bool) -> None:
    async with open_house(settings) as house:
        questions = [*load_questions(), *near_miss_questions()]
        development = [question for question in questions if question.split == "dev"]
        thresholds = await fitted(house, development) if fit else Thresholds()
        typer.echo(f"# {thresholds}")
        results = [await house.run(question, thresholds) for question in questions]
    for result in results if show else []:
        typer.echo(line_of(result))
    typer.echo(report(results, settings.RETRIEVE_K, settings.TOP_N))


def line_of(result: Result) -> str:
    mark = "ok " if result.right else "BAD"
    ranks = f"found {result.rank_found:2} graded {result.rank_kept:2}"
    asked = result.question
    return f"{mark} {asked.id} {asked.status:8} -> {result.status:8} {ranks} {asked.question}"


@app.command()
def obliqa(
    folder: Annotated[Path, typer.Argument(help="Folder that holds documents/*.json and ObliQA_<split>.json.")],
    split: Annotated[str, typer.Option(help="`dev` asks its kept third; any other split is asked whole.")] = "dev",
    limit: Annotated[int | None, typer.Option(min=1, help="Ask only the first so many questions.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object in place of a table.")] = False,
    data_dir: Annotated[Path, typer.Option(help="Keeps the store and the progress.")] = Path("build/obliqa"),
) -> None:
    """Measure the product's retrieval on ObliQA. A run that was stopped goes on where it was."""
    settings = load_settings().model_copy(update={"DATA_DIR": data_dir, "MILVUS_URI": ""})
    data = usage(lambda: obliqa_run.read_split(folder, split, limit), ValueError)
    found = usage(lambda: asyncio.run(obliqa_run.run(data, settings, say)))
    typer.echo(json.dumps(found) if as_json else obliqa_run.table(found))


@app.command()
def ablation(
    folder: Annotated[Path, typer.Argument(help="Folder that holds documents/*.json and ObliQA_dev.json.")],
    cache: Annotated[Path, typer.Option(help="Keeps the vectors.")] = Path("build/training"),
) -> None:
    """Measure each choice about candidates on the kept third of ObliQA's development split, in memory."""
    rules, asked = usage(lambda: read(folder, "dev"), ValueError)
    typer.echo(usage(lambda: candidates.table(rules, asked, cache)))


def say(line: str) -> None:
    typer.echo(f"# {line}", err=True)


@app.command()
def designs(
    model: Annotated[compare.ModelName, typer.Option(help="Who routes, grades, writes and judges.")] = "scripted",
    errors: Annotated[str, typer.Option(help="Shares of wrong judgements, 0 to 1 (scripted only).")] = "0,0.05,0.15",
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same table.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder for the table as Markdown and JSON.")] = Path("build/designs"),
    limit: Annotated[int | None, typer.Option(min=1, help="Ask so many of the cases, spread over all.")] = None,
    data_dir: Annotated[Path, typer.Option(help="Keeps the store and the scores.")] = Path("build/designs/data"),
) -> None:
    """Compare six published designs with Gatehouse on the golden set, and print the table."""
    plan = compare.Plan(model, rates_of(errors), seed, limit)
    settings = load_settings().model_copy(update={"DATA_DIR": data_dir, "MILVUS_URI": ""})
    report = usage(lambda: asyncio.run(designs_run(settings, plan)))
    paths = usage(lambda: compare.write(report, out))
    typer.echo(markdown(report))
    typer.echo(f"# written: {', '.join(map(str, paths))}", err=True)


def rates_of(text: str) -> tuple[float, ...]:
    try:
        rates = tuple(float(part) for part in text.split(","))
    except ValueError:
        rates = (-1.0,)
    if not all(0 <= rate <= 1 for rate in rates) or len(set(rates)) < len(rates):
        raise typer.BadParameter("--errors takes shares from 0 to 1, each once, with commas: 0,0.05,0.15")
    return rates


async def designs_run(settings: Settings, plan: compare.Plan) -> dict[str, Any]:
    async with compare.open_bench(settings, plan.model, say) as opened:
        return await compare.compare(plan, opened, compare.all_cases(plan.limit), say)


def main() -> None:
    """Run a command. A fault that has a name ends with its message and code 1; a bug keeps its traceback."""
    try:
        app()
    except GatehouseError as error:
        typer.echo(f"Error: {error}", err=True)
        sys.exit(2 if isinstance(error, CallerError) else 1)


if __name__ == "__main__":
    main()
