"""A value over many cases with its bootstrap interval, and the paired difference of two trials."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals.trial.measure import Part

SEED = 1
RESAMPLES = 2000
Array = NDArray[np.float64]
NOTHING: Part = (0.0, 0.0)
ROUNDING = 1e-6
"""A stored report holds rounded numbers: what differs by less is the same."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """`low` and `high` bound 95 % of the resampled values; `cases` is how many had a part in it."""

    value: float
    low: float
    high: float
    cases: int


@dataclass(frozen=True, slots=True)
class Difference:
    """B minus A over the `cases` that both were asked, paired. `low` and `high` bound 95 % of its resamples."""

    a: float
    b: float
    low: float
    high: float
    cases: int

    @property
    def value(self) -> float:
        difference = self.b - self.a
        return difference if abs(difference) > ROUNDING else 0.0

    @property
    def is_real(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low > ROUNDING or self.high < -ROUNDING


def estimate(parts: Sequence[Part | None]) -> Estimate | None:
    """The ratio of sums with a percentile bootstrap over cases (Efron 1979), seeded; None where no case has a part."""
    known = [part for part in parts if part is not None]
    if not known or not sum(den for _, den in known):
        return None
    array = np.array(known, dtype=np.float64)
    resampled = ratios(array, draws(len(known)))
    low, high = np.nanquantile(resampled, (0.025, 0.975))
    return Estimate(ratio(array), float(low), float(high), len(known))


def difference(a: Sequence[Part | None], b: Sequence[Part | None]) -> Difference | None:
    """`a` and `b` are of the same cases in the same order; both are resampled by the same draws of cases.

    A case without a part in one of them counts in the other: a gate that lets more through changes whom it judges.
    """
    known = [(x or NOTHING, y or NOTHING) for x, y in zip(a, b, strict=True) if x is not None or y is not None]
    if not sum(x[1] for x, _ in known) or not sum(y[1] for _, y in known):
        return None
    first = np.array([x for x, _ in known], dtype=np.float64)
    second = np.array([y for _, y in known], dtype=np.float64)
    chosen = draws(len(known))
    apart = ratios(second, chosen) - ratios(first, chosen)
    low, high = np.nanquantile(apart, (0.025, 0.975)) if not np.isnan(apart).all() else (np.nan, np.nan)
    return Difference(ratio(first), ratio(second), float(low), float(high), len(known))


def draws(count: int) -> NDArray[np.int64]:
    """Resampled indices (RESAMPLES, count), the same for the same count."""
    return np.random.default_rng(SEED).integers(0, count, (RESAMPLES, count))


def ratio(parts: Array) -> float:
    return float(parts[:, 0].sum() / parts[:, 1].sum())


def ratios(parts: Array, chosen: NDArray[np.int64]) -> Array:
    numerators, denominators = parts[chosen, 0].sum(axis=1), parts[chosen, 1].sum(axis=1)
    found: Array = np.full(len(chosen), np.nan)
    np.divide(numerators, denominators, out=found, where=denominators > 0)
    return found
