"""What a judge reads of a run: its question, its answer and the text of the sources that it had."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from service.errors import KnowledgeBaseError
from service.knowledge.snapshots import Snapshots
from service.model import StoredSource
from service.record import RunRecord

Mask = Callable[[str], str]

SCORED = frozenset({"answered", "partial"})


@dataclass(frozen=True, slots=True)
class Scorable:
    """An answer with its markers, and the texts of the sources by the numbers that it cites them by."""

    question: str
    answer: str
    sources: Mapping[int, str]


def is_scorable(record: RunRecord) -> bool:
    """A refusal says nothing that could be held against a source, and what was cut short is no answer."""
    return record["complete"] and record["ending"]["outcome"] in SCORED and bool(record["sources"])


def scorable_of(record: RunRecord, snapshots: Snapshots, mask: Mask) -> Scorable:
    """Read the sources' texts from the snapshots, and mask everything. Blocks.

    The question is the one that stands alone: a judge is not shown the thread. Raises `KnowledgeBaseError` where a
    source's text is not to be had.
    """
    return Scorable(
        question=for_a_judge(record["standalone"] or record["question"], mask),
        answer=for_a_judge(record["answer"], mask),
        sources={source["n"]: for_a_judge(text_of(source, snapshots), mask) for source in record["sources"]},
    )


def for_a_judge(text: str, mask: Mask) -> str:
    """What a judge reads of a text. DeepEval takes its own mark for a picture to be fetched."""
    return mask(text).replace("[DEEPEVAL:", "[ DEEPEVAL:")


def text_of(source: StoredSource, snapshots: Snapshots) -> str:
    snapshot = snapshots.get(source["sha256"])
    spans = snapshot.spans.get(source["passage_id"]) if snapshot else None
    if snapshot is None or not spans:
        raise KnowledgeBaseError(f"the text of source {source['n']} is not in the snapshots")
    return "\n".join(snapshot.page.blocks[span.block].text[span.start : span.end] for span in spans)
