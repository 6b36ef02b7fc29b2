"""`python -m evals designs`: every design on every case of the golden set and of `planted.jsonl`, with one model."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from evals.designs.claude import connect_claude
from evals.designs.clock import Clock
from evals.designs.gatehouse import Product
from evals.designs.lineup import LINEUP, Entry
from evals.designs.outcome import Bench, outcome_of
from evals.designs.port import EVERY_ABILITY, Ability, DesignModel
from evals.designs.quoting import Quoting
from evals.designs.scripted import Faults, Scripted, standalone
from evals.designs.shelf import KeptScores, SearchedOnce, Shelf
from evals.designs.table import Ran, markdown, row_of
from evals.designs.topics import folder_of
from evals.designs.web import LoopbackWeb
from evals.golden_set import Case, load_cases, load_golden
from evals.house import open_sample
from evals.trial.cases import spread
from service.installation import installation_of
from service.models import load_the_reranker, load_the_scorer
from service.settings import Settings
from service.wiring import limits_of

PLANTED = Path(__file__).with_name("planted.jsonl")
ModelName = Literal["scripted", "quote", "claude"]
Say = Callable[[str], None]

NOTES = (
    "Same store, reranker, model and loopback web for all; only the design differs. The six are given neither the "
    "toggle nor a history: a follow-up is put to them with its topic. “Mended” is with every quirk of `desk.Quirks` "
    "off. Designs 1, 3, 5 and 6 read the dense path, as published; 2, 4 and Gatehouse the reranker's order, over the "
    "same candidates (`RETRIEVE_K`).",
)
SCRIPTED_NOTE = (
    "The scripted model knows the labels, and “right” is read off the same labels: without errors, a design that "
    "asks whether the draft answers shows nothing wrong by construction. Its judgements are wrong for the share "
    "given, drawn from the seed; its writer has faults of its own that are the same for all (`scripted.Faults`). "
    "Cost is of its tokens at the prices of `service/llm/pricing.py`, seconds are modelled from them (`clock.py`), "
    "store and reranker left out."
)
MEASURED_NOTE = "Seconds are measured, with store and reranker remembered from one design to the next."


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be compared. `errors` are the judges' error rates; they are the scripted model's alone."""

    model: ModelName
    errors: tuple[float, ...]
    seed: int
    limit: int | None = None

    @property
    def rates(self) -> tuple[float | None, ...]:
        return self.errors if self.model == "scripted" else (None,)

    @property
    def command(self) -> str:
        rates = f" --errors {','.join(f'{rate:g}' for rate in self.errors)}" if self.model == "scripted" else ""
        limit = f" --limit {self.limit}" if self.limit else ""
        return f"python -m evals designs --model {self.model}{rates} --seed {self.seed}{limit}"


@dataclass(frozen=True, slots=True)
class Opened:
    bench: Bench
    scores: KeptScores
    real: DesignModel | None


def all_cases(limit: int | None = None) -> list[Case]:
    """The golden set and the planted cases; with a limit, evenly spread over both."""
    cases = [*load_golden(), *load_cases(PLANTED)]
    return spread(cases, limit)


@asynccontextmanager
async def open_bench(settings: Settings, model: ModelName, say: Say) -> AsyncIterator[Opened]:
    """Open the product's parts over the sample, ingested where it is not there yet. Raises `OperatorError`."""
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_sample(settings, say))
        reranker = load_the_reranker(settings)
        scorer = load_the_scorer(settings, reranker)
        scores = KeptScores(scorer, settings.DATA_DIR / "scores.json")
        stack.callback(scores.save)
        ranks = scores if reranker is scorer else KeptScores(reranker, settings.DATA_DIR / "ranks.json")
        knowledge, limits = SearchedOnce(store.knowledge), limits_of(settings)
        installation = installation_of(settings, limits, store.embedder.identity, reranker, scorer)
        bench = Bench(
            Shelf(knowledge, ranks, store.embedder.encode, settings.RETRIEVE_K),
            LoopbackWeb.load(),
            Product(knowledge, ranks, scores, store.snapshots, limits, installation),
        )
        yield Opened(bench, scores, await real_model(model, settings, scores, stack))


async def real_model(
    model: ModelName, settings: Settings, scores: KeptScores, stack: AsyncExitStack
) -> DesignModel | None:
    match model:
        case "quote":
            return Quoting(scores)
        case "claude":
            claude = connect_claude(settings)
            stack.push_async_callback(claude.aclose)
            return claude
        case "scripted":
            return None


async def compare(plan: Plan, opened: Opened, cases: Sequence[Case], say: Say) -> dict[str, Any]:
    """Run the line-up; return the report as primitives."""
    can = opened.real.can if opened.real else EVERY_ABILITY
    taking_part = [entry for entry in LINEUP if not entry.lacks(can)]
    rows, outcomes = [], {}
    for rate in plan.rates:
        for entry in taking_part:
            ran = await run_entry(entry, rate, plan, opened, cases)
            rows.append(row_of(ran, plan.seed))
            outcomes[f"{entry.key} at {rate}"] = [outcome.as_json() for outcome in ran.outcomes]
            opened.scores.save()
            say(f"{entry.key} {entry.name}: {rows[-1]['right_answers']} right answers (errors {rate})")
    return {
        "command": plan.command,
        "notes": [*NOTES, SCRIPTED_NOTE if plan.model == "scripted" else MEASURED_NOTE],
        "time": "modelled" if plan.model == "scripted" else "measured",
        "rows": rows,
        "left_out": [left_out(entry, plan.model, can) for entry in LINEUP if entry.lacks(can)],
        "outcomes": outcomes,
    }


def left_out(entry: Entry, model: ModelName, can: frozenset[Ability]) -> str:
    return f"{entry.key}. {entry.name}: it asks its model to {' and to '.join(entry.lacks(can))}, which {model} cannot."


async def run_entry(entry: Entry, rate: float | None, plan: Plan, opened: Opened, cases: Sequence[Case]) -> Ran:
    outcomes = []
    for case in cases:
        if opened.real is not None:
            outcomes.append(await outcome_of(entry, case, opened.bench, opened.real, None))
            continue
        clock, nearest = Clock(), await nearest_folder(case, opened.bench)
        model = Scripted(case, nearest, plan.seed, Faults(errors=rate or 0.0), clock)
        outcomes.append(await outcome_of(entry, case, opened.bench, model, clock))
    return Ran(entry.key, entry.name, rate, tuple(outcomes))


async def nearest_folder(case: Case, bench: Bench) -> str:
    """The topic of a question that no passage answers: that of the passage which comes first for it."""
    first = await bench.shelf.by_rerank(standalone(case), 1)
    return folder_of(first[0].passage.address) if first else ""


def write(report: dict[str, Any], folder: Path) -> list[Path]:
    """Write `designs.md`, `designs.json` and every outcome in `designs-outcomes.json`. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    summary = {key: value for key, value in report.items() if key != "outcomes"}
    texts = {
        "designs.md": markdown(report),
        "designs.json": as_json(summary),
        "designs-outcomes.json": as_json(report["outcomes"]),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


def as_json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
