"""Who takes part: each design as published and mended, Gatehouse in both deliveries, and what each needs of a model."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from evals.designs import majority, retry_inside, source_routed, state_machine, three_verdicts, three_way
from evals.designs.desk import MENDED, PUBLISHED, Graph, Quirks
from evals.designs.port import Ability
from service.model import Delivery


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the table. `build` makes the graph of a published design; Gatehouse has a `delivery` instead."""

    key: str
    name: str
    build: Callable[[], Graph] | None = None
    quirks: Quirks = PUBLISHED
    needs: frozenset[Ability] = frozenset()
    delivery: Delivery = "draft"

    def lacks(self, can: frozenset[Ability]) -> list[str]:
        """What this design asks of a model that one which `can` so much does not do."""
        return sorted(self.needs - can)


ROUTE: frozenset[Ability] = frozenset({"route"})
MISREAD = replace(PUBLISHED, misread=True)

LINEUP = (
    Entry("1", "Source-routed adaptive", source_routed.build, PUBLISHED, ROUTE),
    Entry("1b", "the same, bounded and mended", source_routed.build, MENDED, ROUTE),
    Entry("1i", "the same, its “yes” read as a pass", source_routed.build, MISREAD, ROUTE),
    Entry("2", "Three-way adaptive", three_way.build, PUBLISHED, ROUTE | {"direct"}),
    Entry("2b", "the same, mended", three_way.build, MENDED, ROUTE | {"direct"}),
    Entry("3", "Corrective by majority", majority.build, PUBLISHED),
    Entry("3b", "the same, mended", majority.build, MENDED),
    Entry("4", "Corrective by three verdicts", three_verdicts.build, PUBLISHED, frozenset({"bullets"})),
    Entry("4b", "the same, mended", three_verdicts.build, MENDED),
    Entry("5", "Retry inside, then refuse", retry_inside.build, PUBLISHED),
    Entry("5b", "the same, mended", retry_inside.build, MENDED),
    Entry("6", "Verified state machine", state_machine.build, PUBLISHED, ROUTE),
    Entry("6b", "the same, mended", state_machine.build, MENDED, ROUTE),
    Entry("7d", "Gatehouse, draft"),
    Entry("7v", "Gatehouse, verified", delivery="verified"),
)
