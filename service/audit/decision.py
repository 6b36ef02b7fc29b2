"""Whether a record counts, decided once: by its writer, or by who gave up waiting for it.

Without it a write that is slower than its time limit has two truths: an error for the reader, an answer in the log.
(A record that was given up, and stands whole on the disk when the machine dies before it was taken back, does count.)
"""

from threading import Lock


class Decision:
    """Asked from two threads; whoever comes first decides."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: bool | None = None

    def keep(self) -> bool:
        """The record is on disk. Returns False where it was given up before: it has to be taken back then."""
        return self._decide(True)

    def give_up(self) -> bool:
        """The record is waited for no longer. Returns False where it is on disk: it counts then."""
        return not self._decide(False)

    @property
    def given_up(self) -> bool:
        return self._counts is False

    def _decide(self, counts: bool) -> bool:
        with self._lock:
            if self._counts is None:
                self._counts = counts
            return self._counts
