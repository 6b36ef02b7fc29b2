"""What a step of a run took and gave, as its record tells it: text apart from ids and numbers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from service.record import CandidateRecord, PassRecord, RunRecord


@dataclass(frozen=True, slots=True)
class Told:
    """`input` and `output` hold text; `metadata` holds codes, ids and numbers only."""

    input: Any = None
    output: Any = None
    metadata: dict[str, Any] = field(default_factory=dict)


def told_of(record: RunRecord, node: str, attempt: int) -> Told:
    """What there is to tell of the node in this attempt; nothing where the run ended before it could be known."""
    teller = TELLERS.get(node)
    return teller(record, attempt) if teller else Told()


def pass_of(record: RunRecord, attempt: int) -> PassRecord | None:
    return next((item for item in reversed(record["passes"]) if item["attempt"] <= attempt), None)


def understood(record: RunRecord, _: int) -> Told:
    return Told(record["question"], record["standalone"])


def retrieved(record: RunRecord, attempt: int) -> Told:
    found = pass_of(record, attempt)
    if found is None:
        return Told()
    return Told(found["query"], titles(found["candidates"]), {"passages": scores(found["candidates"], "found")})


def reranked(record: RunRecord, attempt: int) -> Told:
    found = pass_of(record, attempt)
    return Told(metadata={"passages": scores(found["candidates"], "reranked")}) if found else Told()


def searched(record: RunRecord, attempt: int) -> Told:
    found = pass_of(record, attempt)
    web = found["web"] if found else None
    if web is None:
        return Told(metadata={"status": "off"})
    metadata = {"status": web["status"], "passages": scores(web["strips"], "reranked")}
    return Told({"asked": web["asked"], "sent": web["query"]}, titles(web["strips"]), metadata)


def graded(record: RunRecord, attempt: int) -> Told:
    found = pass_of(record, attempt)
    if found is None:
        return Told()
    grades = found["grades"]
    output = [
        {"title": g["title"], "section": g["section"], "result": g["result"], "words": g["words"]} for g in grades
    ]
    results = [{"passage_id": g["passage_id"], "label": g["label"], "result": g["result"]} for g in grades]
    return Told(found["query"], output, {"grades": results, "kept": found["kept"]})


def rewritten(record: RunRecord, attempt: int) -> Told:
    before, after = pass_of(record, attempt), pass_of(record, attempt + 1)
    new = after if after is not before else None
    return Told(before["query"] if before else None, new["query"] if new else None)


def assembled(record: RunRecord, _: int) -> Told:
    sources = record["sources"]
    output = [{"n": s["n"], "title": s["title"], "section": s["section"], "quote": s["quote"]} for s in sources]
    return Told(output=output, metadata={"sources": [{"n": s["n"], "passage_id": s["passage_id"]} for s in sources]})


def drafted(record: RunRecord, attempt: int) -> Told:
    draft = next((item for item in record["drafts"] if item["attempt"] == attempt), None)
    if draft is None:
        return Told()
    metadata = {"abstained": draft["abstained"], "cut": draft["cut"], "characters": len(draft["text"])}
    return Told(output=draft["text"], metadata=metadata)


def judged(record: RunRecord, attempt: int) -> Told:
    given = [item for item in record["verdicts"] if item["attempt"] == attempt and item["gate"] != "documents"]
    output = [{"gate": v["gate"], "result": v["result"], "words": v["words"]} for v in given]
    return Told(output=output, metadata={v["gate"]: v["result"] for v in given})


def finished(record: RunRecord, _: int) -> Told:
    cited = record["citations"]
    metadata = [{"n": c["n"], "status": c["status"], "support": round(c["support"], 3)} for c in cited]
    return Told(output=[{"n": c["n"], "quote": c["quote"]} for c in cited], metadata={"citations": metadata})


TELLERS: Mapping[str, Callable[[RunRecord, int], Told]] = {
    "contextualize": understood,
    "retrieve_vector": retrieved,
    "rerank_vector": reranked,
    "search_web": searched,
    "grade_documents": graded,
    "rewrite_query": rewritten,
    "assemble_sources": assembled,
    "generate": drafted,
    "reflect": judged,
    "finalize": finished,
}


def titles(candidates: Sequence[CandidateRecord]) -> list[str]:
    return [f"{candidate['title']} > {candidate['section']}" for candidate in candidates]


def scores(candidates: Sequence[CandidateRecord], which: str) -> list[dict[str, Any]]:
    """`which`: the score that the step gave, `found` or `reranked`."""
    return [
        {"passage_id": candidate["passage_id"], which: None if score is None else round(score, 4)}
        for candidate in candidates
        for score in [candidate["found"] if which == "found" else candidate["reranked"]]
    ]
