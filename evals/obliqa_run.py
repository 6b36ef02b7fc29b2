"""ObliQA through the product: its store, its fused search, its reranker and its order. Stopped runs go on."""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.metrics import average_precision_at, interval, mean, ndcg_at, recall_at
from evals.obliqa import Asked, Rule, read, strangers, two_thirds
from service.knowledge.milvus import MilvusKnowledge
from service.model import Passage, Scope
from service.models import load_the_reranker
from service.ports import Reranker
from service.ranking import combined_order
from service.settings import Settings
from service.store import open_store

Progress = Callable[[str], None]

SOURCE = "obliqa"
CUT = 10
MAX_BYTES = 30_000
"""The store takes 65,535 for a text and for its terms; one passage of the data set has 152,177."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """One question's candidates as passage keys in the search's order, their scores, and the keys that answer."""

    id: str
    found: list[str]
    scores: list[float]
    answers: list[str]

    def relevant(self) -> frozenset[int]:
        """Places in `found` that answer; what was not found stands at places that no order reaches."""
        place = {key: index for index, key in enumerate(self.found)}
        return frozenset(place.get(key, -1 - number) for number, key in enumerate(self.answers))


def key_text(key: tuple[int, str]) -> str:
    return f"{key[0]}/{key[1]}"


def passage_of(rule: Rule, sha256: str) -> Passage:
    return Passage(
        passage_id=key_text(rule.key),
        sha256=sha256,
        source=SOURCE,
        kind="official",
        title="",
        address=str(rule.key[0]),
        section=rule.key[1],
        headings=(),
        context=rule.context,
        text=rule.text.encode()[:MAX_BYTES].decode(errors="ignore"),
        spans=(),
        fetched_at="",
    )


async def fill(knowledge: MilvusKnowledge, rules: Sequence[Rule], progress: Progress) -> int:
    """Store what is not stored yet, document by document, and remove what is no longer among `rules`.

    Returns how many passages were written.
    """
    stored = await knowledge.documents(SOURCE)
    numbers = sorted({rule.key[0] for rule in rules})
    for address in sorted(set(stored) - {str(number) for number in numbers}):
        await knowledge.remove(SOURCE, address)
        progress(f"document {address}: removed, the folder does not hold it")
    written = 0
    for number in numbers:
        of_document = [rule for rule in rules if rule.key[0] == number]
        text = json.dumps([[rule.context, rule.text] for rule in of_document])
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        if stored.get(str(number)) != sha256:
            await knowledge.replace(SOURCE, str(number), [passage_of(rule, sha256) for rule in of_document])
            written += len(of_document)
            progress(f"document {number}: {len(of_document)} passages")
    return written


@dataclass(frozen=True, slots=True)
class Read:
    """What a run measures on: every passage of the folder, and the questions asked."""

    rules: list[Rule]
    asked: list[Asked]


def read_split(folder: Path, split: str, limit: int | None = None) -> Read:
    """The kept third of "dev", which nothing was trained or chosen on; any other split whole. Raises `ValueError`."""
    rules, asked = read(folder, split, whole=False)
    return Read(rules, (two_thirds(asked)[1] if split == "dev" else asked)[:limit])


def digest_of(rules: Sequence[Rule]) -> str:
    """Return what the documents are told apart by: every passage's key, heading path and text, in their order."""
    return hashlib.sha256(json.dumps([[rule.key, rule.context, rule.text] for rule in rules]).encode()).hexdigest()


async def rank(question: Asked, knowledge: MilvusKnowledge, reranker: Reranker, limit: int) -> Ranked:
    candidates = await knowledge.search(question.question, limit=limit, scope=Scope(sources=frozenset([SOURCE])))
    scores = await reranker.scores(question.question, [c.passage.indexed_text for c in candidates])
    return Ranked(
        question.id,
        [candidate.passage.passage_id for candidate in candidates],
        [round(score, 6) for score in scores],
        sorted(key_text(key) for key in question.answers),
    )


async def run(data: Read, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Fill the store in `settings.DATA_DIR`, rank every question, and return the measures."""
    if lost := strangers(data.rules, data.asked):
        progress(f"{len(lost)} answers are in no document; they count as not found")
    async with open_store(settings, progress) as store:
        await fill(store.knowledge, data.rules, progress)
        reranker = load_the_reranker(settings)
        made_with = f"{store.embedder.identity} {reranker.state().detail} {settings.RETRIEVE_K}"
        kept = kept_in(settings.DATA_DIR, made_with, data.rules)
        known = read_ranked(kept)
        ranked: list[Ranked] = []
        began = time.perf_counter()
        with kept.open("a", encoding="utf-8") as file:
            file.write("\n" if file.tell() else "")  # after a line that was cut off, the next begins anew
            for number, question in enumerate(data.asked, start=1):
                item = known_of(question, known)
                if item is None:
                    item = await rank(question, store.knowledge, reranker, settings.RETRIEVE_K)
                    file.write(json.dumps(as_row(question, item)) + "\n")
                    file.flush()
                ranked.append(item)
                if number % 50 == 0:
                    spent = time.perf_counter() - began
                    progress(f"{number}/{len(data.asked)} questions, {spent:.0f} s")
    return measures(ranked, settings.RETRIEVE_K, made_with)


def kept_in(folder: Path, made_with: str, rules: Sequence[Rule]) -> Path:
    """Where the rows are kept that the same models found in the same documents."""
    made_of = f"{made_with} {digest_of(rules)}"
    return folder / f"ranked-{hashlib.sha256(made_of.encode()).hexdigest()[:12]}.jsonl"


Known = Mapping[tuple[str, str], tuple[list[str], list[float]]]
"""By a question's ID and text: what was found, and the scores."""


def known_of(question: Asked, known: Known) -> Ranked | None:
    """What an earlier run found for this question, under the answers that it has now."""
    if (question.id, question.question) not in known:
        return None
    found, scores = known[question.id, question.question]
    return Ranked(question.id, found, scores, sorted(key_text(key) for key in question.answers))


def as_row(question: Asked, item: Ranked) -> dict[str, Any]:
    return {"id": question.id, "question": question.question, "found": item.found, "scores": item.scores}


def read_ranked(path: Path) -> Known:
    """What an earlier run wrote; a line that was cut off counts as not written."""
    known: dict[tuple[str, str], tuple[list[str], list[float]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            row = json.loads(line)
            known[row["id"], row["question"]] = (row["found"], row["scores"])
        except (ValueError, KeyError, TypeError):
            continue
    return known


def orders_of(item: Ranked) -> dict[str, list[int]]:
    search = list(range(len(item.found)))
    return {
        "search": search,
        "reranker alone": sorted(search, key=lambda i: -item.scores[i]),
        "both combined": combined_order(item.scores),
    }


def measures(ranked: Sequence[Ranked], limit: int, made_with: str) -> dict[str, Any]:
    """The full pipeline's measures at 10, the candidates' recall, and each order by itself."""
    rows = {name: of_order(ranked, name) for name in orders_of(ranked[0])}
    return {
        **rows["both combined"],
        "candidates_recall": mean([recall_at(limit, range(len(item.found)), item.relevant()) for item in ranked]),
        "retrieve_k": limit,
        "questions": len(ranked),
        "made_with": made_with,
        "ablation": rows,
    }


def of_order(ranked: Sequence[Ranked], name: str) -> dict[str, Any]:
    each = [(orders_of(item)[name], item.relevant()) for item in ranked]
    recalls = [recall_at(CUT, order, relevant) for order, relevant in each]
    return {
        "recall@10": mean(recalls),
        "recall@10_95%": interval(recalls, mean),
        "map@10": mean([average_precision_at(CUT, order, relevant) for order, relevant in each]),
        "ndcg@10": mean([ndcg_at(CUT, order, relevant) for order, relevant in each]),
    }


def table(found: dict[str, Any]) -> str:
    lines = [
        f"{found['questions']} questions, candidates' recall at {found['retrieve_k']}: "
        f"{found['candidates_recall']:.3f}",
        "",
        "| order | Recall@10 | MAP@10 | nDCG@10 |",
        "| --- | --- | --- | --- |",
    ]
    for name, row in found["ablation"].items():
        lines.append(f"| {name} | {row['recall@10']:.3f} | {row['map@10']:.3f} | {row['ndcg@10']:.3f} |")
    return "\n".join(lines)
