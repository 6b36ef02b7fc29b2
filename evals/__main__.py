"""`python -m evals`: offline runs of the product over the sample knowledge base."""

import asyncio
import tempfile
from itertools import product
from pathlib import Path
from typing import Annotated

import typer

from evals.house import House, open_house
from evals.seed import Result, load_questions, report
from service.llm.quote import Thresholds
from service.settings import Settings, load_settings

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.callback()
def evals() -> None:
    """Offline runs of the product over the sample knowledge base."""


@app.command()
def seed(
    fit: Annotated[bool, typer.Option("--fit", help="Search thresholds on the development half first.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print each question's result.")] = False,
    data_dir: Annotated[Path | None, typer.Option(help="Keep the store here; a temporary folder otherwise.")] = None,
) -> None:
    """Ask the labelled sample questions in Quote mode and print what was found, answered and refused."""
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
        thresholds = await fitted(house) if fit else Thresholds()
        typer.echo(f"# {thresholds}")
        results = [await house.run(question, thresholds) for question in load_questions()]
    for result in results if show else []:
        typer.echo(line_of(result))
    typer.echo(report(results, settings.RETRIEVE_K, settings.TOP_N))


def line_of(result: Result) -> str:
    mark = "ok " if result.right else "BAD"
    ranks = f"found {result.rank_found:2} graded {result.rank_kept:2}"
    asked = result.question
    return f"{mark} {asked.id} {asked.status:8} -> {result.status:8} {ranks} {asked.question}"


async def fitted(house: House) -> Thresholds:
    """The thresholds with the most right results on the development half; a false answer costs two right ones."""
    questions = [question for question in load_questions() if question.split == "dev"]
    best, best_value = Thresholds(), float("-inf")
    grid = product((0.5, 0.55, 0.6, 0.65, 0.7), (0.0, 0.1), (0.0, 0.1), (1, 2, 3), (0.5, 0.7, 0.9))
    for relevant, looser, milder, quotes, share in grid:
        thresholds = Thresholds(relevant, relevant - looser, relevant - milder, quotes, share)
        results = [await house.run(question, thresholds) for question in questions]
        value = sum(result.right for result in results) - 2 * sum(
            result.status == "answered" and result.question.status == "refused" for result in results
        )
        if value > best_value:
            best, best_value = thresholds, value
            typer.echo(f"# {value:4} {thresholds}")
    return best


if __name__ == "__main__":
    app()
