"""What one case did: the run's own record, held against the case's labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evals.golden_set import Case
from evals.seed import Expected, states
from evals.trial.cases import is_web
from evals.trial.probes import Probed
from evals.trial.web import Egress
from service.model import Passage
from service.ranking import combined_order
from service.record import CitationRecord, PassRecord, RunRecord

Key = tuple[str, str]
"""(passage_id, sha256) of a passage."""


@dataclass(frozen=True, slots=True)
class Observed:
    """One run of one case.

    `passages` are all that came back, from the store and the web; `leaked` is how many of them lay outside what the
    run may read; `judged` are a judge's scores by name, 0..1, none where no judge is configured.
    """

    case: Case
    record: RunRecord
    passages: Mapping[Key, Passage]
    egress: Egress = field(default_factory=Egress)
    leaked: int = 0
    probes: tuple[Probed, ...] = ()
    judged: Mapping[str, float] = field(default_factory=dict)

    # What came back, in its orders

    @property
    def first(self) -> PassRecord | None:
        return self.record["passes"][0] if self.record["passes"] else None

    @property
    def before(self) -> list[Key]:
        """The candidates of the first pass in the search's order."""
        return [key_of(item) for item in self.first["candidates"]] if self.first else []

    @property
    def after(self) -> list[Key]:
        """The same candidates in the order by which the best were taken; the search's where nothing was reranked."""
        scores = [item["reranked"] for item in self.first["candidates"]] if self.first else []
        known = [score for score in scores if score is not None]
        return [self.before[index] for index in combined_order(known)] if len(known) == len(scores) else self.before

    def ever(self, part: str) -> set[Key]:
        """The passages of all passes that were `found` (or read on the web), `graded`, or `kept`."""
        return {key for one in self.record["passes"] for key in KEYS_OF[part](one)}

    # The labels

    @property
    def stored(self) -> tuple[Expected, ...]:
        """What is expected of the knowledge base."""
        return tuple(expected for expected in self.case.expected if not is_web(expected))

    @property
    def is_answerable(self) -> bool:
        return self.case.status == "answered"

    def is_expected(self, key: Key) -> bool:
        return any(self.holds(key, expected) for expected in self.case.expected)

    def holds(self, key: Key, expected: Expected) -> bool:
        return key in self.passages and expected.is_in(self.passages[key])

    def share_in(self, keys: set[Key]) -> float:
        """Share of the expected passages among `keys`; where each answers alone, whether one is there."""
        there = [any(self.holds(key, expected) for key in keys) for expected in self.case.expected]
        return float(any(there)) if self.case.any_of else sum(there) / len(there)

    def relevant_in(self, order: Sequence[Key]) -> frozenset[int]:
        """Where the knowledge base's expected passages stand in `order`; a negative number for one that is not there.

        Where each answers alone, the first is all that is wanted.
        """
        places = [
            next((place for place, key in enumerate(order) if self.holds(key, expected)), -1 - number)
            for number, expected in enumerate(self.stored)
        ]
        if not self.case.any_of:
            return frozenset(places)
        return frozenset([min((place for place in places if place >= 0), default=-1)])

    # The answer

    @property
    def status(self) -> str:
        return self.record["ending"]["outcome"]

    @property
    def facts_stated(self) -> int:
        return sum(states(self.record["answer"], fact) for fact in self.case.facts)

    @property
    def forbidden_stated(self) -> int:
        return sum(states(self.record["answer"], wrong) for wrong in self.case.forbidden)

    @property
    def states_all(self) -> bool:
        return self.facts_stated == len(self.case.facts) and not self.forbidden_stated

    @property
    def right(self) -> bool:
        return self.case.is_right(self.status, self.states_all)

    @property
    def has_draft(self) -> bool:
        return self.status in ("answered", "partial")

    @property
    def web_allowed(self) -> bool:
        return self.case.web_search and self.record["filter"]["web"]

    def cited(self, citation: CitationRecord) -> Key:
        source = next(item for item in self.record["sources"] if item["n"] == citation["n"])
        return key_of(source)

    @property
    def lost_at(self) -> str:
        """The first node at which a case that did not end right went wrong, "" for one that did."""
        if self.right:
            return ""
        if self.status not in ("answered", "partial", "refused"):
            return "error"
        if not self.is_answerable:
            return "reflect" if self.status == "answered" else "grade_documents"
        on_the_web = all(is_web(expected) for expected in self.case.expected)
        stages = (("found", "search_web" if on_the_web else "retrieve_vector"), *STAGES)
        lost = next((node for part, node in stages if self.share_in(self.ever(part)) < 1), "")
        return lost or ("reflect" if self.states_all else "generate")


STAGES = (("graded", "rerank_vector"), ("kept", "grade_documents"))


def key_of(item: Mapping[str, Any]) -> Key:
    return item["passage_id"], item["sha256"]


def found_in(one: PassRecord) -> list[Key]:
    strips = one["web"]["strips"] if one["web"] else []
    return [key_of(item) for item in [*one["candidates"], *strips]]


def graded_in(one: PassRecord) -> list[Key]:
    return [key_of(grade) for grade in one["grades"]]


def kept_in(one: PassRecord) -> list[Key]:
    return [key_of(grade) for grade in one["grades"] if grade["result"] == "pass"]


KEYS_OF = {"found": found_in, "graded": graded_in, "kept": kept_in}
