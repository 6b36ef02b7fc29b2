"""A skill: what it makes of the four points of the one graph that it may parametrise."""

from dataclasses import dataclass, field

from service.model import Delivery, OnUngrounded, Passage, Scope
from service.skills.domains import admits


@dataclass(frozen=True, slots=True)
class Gates:
    """What a skill says of the gates. But for `top_n` it can only be stricter than the operator and the request.

    `grading_hint` is shown to the grader as data. `top_n` is the passages kept after the rerank, fewer or more than
    the operator's; None leaves those. Of two caps, deliveries or rules for exhausted caps the stricter holds.
    """

    grading_hint: str = ""
    top_n: int | None = None
    max_rewrites: int | None = None
    max_regen: int | None = None
    delivery: Delivery = "draft"
    on_ungrounded: OnUngrounded = "warn"


@dataclass(frozen=True, slots=True)
class Skill:
    """`instructions` are for the writer alone. `sha256` names this very text of the skill's two files."""

    name: str
    description: str
    instructions: str
    scope: Scope
    gates: Gates = field(default_factory=Gates)
    sha256: str = ""

    def may_read(self, passage: Passage) -> bool:
        """The last word on any passage, wherever it came from (invariant 13)."""
        if passage.kind == "web":
            return admits(self.scope, passage.address)
        return self.scope.admits(passage)

    def delivery_of(self, asked: Delivery) -> Delivery:
        return "verified" if "verified" in (asked, self.gates.delivery) else "draft"


NO_SKILL = Skill("", "", "", Scope())
"""The main thread: no instructions, and everything may be read."""
