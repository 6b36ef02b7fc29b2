"""The part of the composition root that watches: metrics, traces and scores, each an observer of the runs."""

from collections.abc import Sequence
from contextlib import AsyncExitStack

from service.knowledge.snapshots import Snapshots
from service.model import ComponentState
from service.ports import AuditSink, FeedbackObserver, Reporting, RunObserver, ScoreSink
from service.scores import open_scores
from service.settings import Settings
from service.tracing import open_traces


async def open_observers(
    settings: Settings,
    stack: AsyncExitStack,
    audit: AuditSink,
    snapshots: Snapshots,
    score_sinks: Sequence[ScoreSink] = (),
) -> list[RunObserver]:
    """Open whoever is told of each run that has ended; an observer that is off is told, too, and does nothing.

    `score_sinks` are told every score, and every thumb, beside the traces.
    """
    traces = await open_traces(settings, stack)
    scores = await open_scores(settings, stack, audit, snapshots, sinks=[traces, *score_sinks])
    return [traces, scores]


def feedback_observers(observers: Sequence[RunObserver]) -> list[FeedbackObserver]:
    """Those that are told of feedback as well."""
    return [observer for observer in observers if isinstance(observer, FeedbackObserver)]


def states_of(observers: Sequence[RunObserver]) -> list[ComponentState]:
    """What `/readyz` says of those that have a state."""
    return [observer.state() for observer in observers if isinstance(observer, Reporting)]
