"""A measure: what it is called, where it points, and a case's part in it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from evals.trial.observed import Observed

Part = tuple[float, float]
Better = Literal["higher", "lower", "neither"]


@dataclass(frozen=True, slots=True)
class Measure:
    """`node` is the node of the graph to look at when the measure falls; `unit` is "share", or what is counted."""

    name: str
    group: str
    node: str
    better: Better
    of: Callable[[Observed], Part | None]
    unit: str = "share"


def share(part: float, whole: float) -> Part | None:
    return (part, whole) if whole else None


def flag(said: bool) -> Part:
    return float(said), 1.0
