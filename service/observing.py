"""The part of the composition root that watches: metrics, traces and scores, each an observer of the runs."""

from service.ports import RunObserver


async def open_observers() -> list[RunObserver]:
    """Open whoever is told of each run that has ended; none where nothing is configured."""
    return []
