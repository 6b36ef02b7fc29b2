"""The plots of a report, each as one SVG text to be embedded. matplotlib is imported here alone, when one is drawn."""

import io
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from evals.trial.compare import Comparison
from evals.trial.estimate import Estimate
from evals.trial.measures import CUTS
from evals.trial.trial import FUNNEL, Trial

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREEN, RED, GREY = "#2f6690", "#d1782b", "#3a7d44", "#b23a48", "#9aa5b1"

STATED: dict[str, str] = {
    "asked": "can be answered",
    "found": "passages found",
    "graded": "after the rerank",
    "kept": "passed gate 1",
    "stated": "facts stated",
    "answered": "right answer shown",
}


def svg_of(draw: Callable[["Axes"], None], width: float = 7.2, height: float = 3.4) -> str:
    """Draw on fresh axes; return the SVG element, its ids the same for the same drawing."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {"svg.hashsalt": "gatehouse", "svg.fonttype": "none", "font.family": "sans-serif"}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return re.sub(r"^.*?(?=<svg)", "", text.getvalue(), flags=re.DOTALL)


def funnel(trial: Trial) -> str:
    """How many of the answerable cases came through each stage."""
    rows = [row for row in trial.rows if row.wanted == "answered"]
    counts = [sum(row.funnel >= index for row in rows) for index in range(len(FUNNEL))]

    def draw(axes: "Axes") -> None:
        labels = [STATED[name] for name in FUNNEL]
        axes.barh(labels[::-1], counts[::-1], color=BLUE)
        for place, count in enumerate(counts[::-1]):
            axes.text(count, place, f" {count}", va="center")
        axes.set_xlim(0, 1.1 * max(1, *counts))
        axes.set_xlabel("answerable cases that came this far")

    return svg_of(draw)


def recall_curves(trial: Trial) -> str:
    found = trial.estimates()

    def draw(axes: "Axes") -> None:
        for stage, color in (("before rerank", GREY), ("after rerank", BLUE)):
            points: list[tuple[int, Estimate]] = [
                (k, found[f"recall@{k} {stage}"]) for k in CUTS if f"recall@{k} {stage}" in found
            ]
            cuts = [k for k, _ in points]
            axes.plot(cuts, [e.value for _, e in points], marker="o", color=color, label=stage)
            axes.fill_between(cuts, [e.low for _, e in points], [e.high for _, e in points], color=color, alpha=0.18)
        axes.set_xscale("log")
        axes.set_xticks(CUTS, [str(k) for k in CUTS])
        axes.minorticks_off()
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("k, passages")
        axes.set_ylabel("recall at k, 95 % interval")
        axes.legend(frameon=False, loc="lower right")

    return svg_of(draw)


def waterfall(trial: Trial) -> str:
    """Mean milliseconds over all runs, each node beginning where the one before it ended."""
    times = trial.times()
    nodes = [(node, sum(values) / len(trial.rows)) for node, values in times.items() if node != "total"]

    def draw(axes: "Axes") -> None:
        begin = 0.0
        for place, (_, mean) in enumerate(nodes):
            axes.barh(place, mean, left=begin, color=ORANGE)
            axes.text(begin + mean, place, f" {mean:,.0f}", va="center", fontsize=8)
            begin += mean
        axes.set_yticks(range(len(nodes)), [node for node, _ in nodes])
        axes.invert_yaxis()
        axes.set_xlim(0, 1.12 * max(begin, 1))
        axes.set_xlabel("mean milliseconds over all runs (the web is searched beside the rerank)")

    return svg_of(draw)


def cost_per_answer(trial: Trial) -> str:
    """Each run's cost where a model was paid for; else each run's seconds, since time is all that it cost."""
    paid = [row.parts["cost"][0] for row in trial.rows if "cost" in row.parts]
    free = not any(paid)
    values = [row.ms.get("total", 0.0) / 1000 for row in trial.rows] if free else paid
    label = "seconds per answer (no language model was called: the cost is 0)" if free else "USD per answer"

    def draw(axes: "Axes") -> None:
        axes.hist(values, bins=24, color=GREEN)
        mean = sum(values) / max(1, len(values))
        axes.axvline(mean, color=RED, label=f"mean {mean:.3g}")
        axes.set_xlabel(label)
        axes.set_ylabel("cases")
        axes.legend(frameon=False)

    return svg_of(draw)


def outcomes(trial: Trial) -> str:
    """By kind: right, and where the others were lost first."""
    kinds = sorted({row.kind for row in trial.rows})
    nodes = [node for node, _ in Counter(row.lost_at for row in trial.rows if row.lost_at).most_common()]
    colors = [GREEN, ORANGE, RED, BLUE, GREY, "#6d597a", "#444444"]

    def draw(axes: "Axes") -> None:
        left = [0] * len(kinds)
        for node, color in zip(["", *nodes], colors, strict=False):
            counts = [sum(row.kind == kind and row.lost_at == node for row in trial.rows) for kind in kinds]
            axes.barh(kinds, counts, left=left, color=color, label=node or "right")
            left = [a + b for a, b in zip(left, counts, strict=True)]
        axes.invert_yaxis()
        axes.set_xlabel("cases")
        axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))

    return svg_of(draw, height=max(3.0, 0.28 * len(kinds)))


def flips(found: Comparison) -> str:
    """By kind: cases gained to the right, lost to the left."""
    flipped = found.flips()
    kinds: Sequence[str] = sorted({flip.after.kind for flip in flipped}) or ["no case flipped"]

    def draw(axes: "Axes") -> None:
        for gained, color, label in ((True, GREEN, "gained"), (False, RED, "lost")):
            counts = [sum(f.after.kind == kind and f.gained is gained for f in flipped) for kind in kinds]
            axes.barh(kinds, [count if gained else -count for count in counts], color=color, label=label)
        axes.axvline(0, color="black", linewidth=0.8)
        axes.set_xlabel("cases that flipped")
        axes.legend(frameon=False)

    return svg_of(draw, height=max(2.2, 0.3 * len(kinds) + 1))
