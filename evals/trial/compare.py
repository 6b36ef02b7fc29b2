"""Two trials, case by case: what differs, which cases flipped, and where they were lost."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from evals.trial.estimate import Difference, difference
from evals.trial.measure import Measure
from evals.trial.measures import all_measures
from evals.trial.trial import Row, Trial


@dataclass(frozen=True, slots=True)
class Flip:
    """A case that ended right in one trial and not in the other."""

    before: Row
    after: Row

    @property
    def gained(self) -> bool:
        return self.after.right


@dataclass(frozen=True, slots=True)
class Change:
    """A measure in both trials."""

    measure: Measure
    found: Difference

    @property
    def worse_by(self) -> float:
        """How much worse B is, in the measure's unit; negative where it is better, 0 where neither is."""
        sign = {"higher": -1.0, "lower": 1.0, "neither": 0.0}[self.measure.better]
        return sign * self.found.value


@dataclass(frozen=True, slots=True)
class Comparison:
    """The cases that both trials asked, in A's order, and how many only one of them did."""

    a: Trial
    b: Trial
    pairs: Sequence[tuple[Row, Row]]

    @property
    def left_out(self) -> int:
        return len(self.a.rows) + len(self.b.rows) - 2 * len(self.pairs)

    def flips(self) -> list[Flip]:
        return [Flip(x, y) for x, y in self.pairs if x.right != y.right]

    def changes(self) -> list[Change]:
        """Every measure that both trials have."""
        found = [(measure, self.difference_in(measure.name)) for measure in all_measures()]
        return [Change(measure, value) for measure, value in found if value is not None]

    def difference_in(self, name: str) -> Difference | None:
        return difference([x.parts.get(name) for x, _ in self.pairs], [y.parts.get(name) for _, y in self.pairs])

    def moved(self) -> list[tuple[str, int, int]]:
        """(node, cases lost there in A, in B), where the two differ."""
        before, after = (Counter(pair[side].lost_at for pair in self.pairs) for side in (0, 1))
        nodes = dict.fromkeys([*before, *after])
        return [(node, before[node], after[node]) for node in nodes if node and before[node] != after[node]]


def compare(a: Trial, b: Trial) -> Comparison:
    """Raises `ValueError` where the two have no case in common."""
    other = {row.id: row for row in b.rows}
    pairs = [(row, other[row.id]) for row in a.rows if row.id in other]
    if not pairs:
        raise ValueError("The two reports have no case in common, so there is nothing to compare.")
    return Comparison(a, b, pairs)
