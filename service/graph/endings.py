"""The terminal events of a run that has no answer: a stop by someone, a fault of ours, or a loss."""

import logging

from service.errors import AuditUnavailable, Cancelled, DeadlineExceeded, GatehouseError, ShuttingDown
from service.graph.events import Failed
from service.record import StoppedBy

logger = logging.getLogger(__name__)


def as_failed(error: GatehouseError) -> Failed:
    return Failed(error.code, str(error), error.retryable, error.status)


CANCELLED = as_failed(Cancelled("The answer was stopped."))
SHUTDOWN = as_failed(ShuttingDown("The service is restarting. Please ask again in a moment."))
DEADLINE = as_failed(DeadlineExceeded("The answer took too long and was stopped. Please try again."))
INTERNAL = as_failed(GatehouseError("Something went wrong on our side. The fault was logged under the run's id."))
UNRECORDED = as_failed(
    AuditUnavailable(
        "The service is restarting, and this answer could not be recorded in time, so it does not count. Please ask "
        "again in a moment."
    )
)
"""The terminal event of a run whose record is not on disk when the process has to end."""
LOST = Failed("lost", "The service died in the middle of this run. What was shown by then is not known.", True, 500)
"""The ending of a run that left nothing but the note of its beginning."""

STOPS: dict[StoppedBy, Failed] = {
    "person": CANCELLED,
    "reader_left": CANCELLED,
    "deadline": DEADLINE,
    "shutdown": SHUTDOWN,
}
"""The terminal event of a run that was stopped, by who stopped it."""


def failure_of(error: BaseException, run_id: str) -> Failed:
    """The safe terminal event of a fault. Only our own errors' texts leave; a bug keeps its traceback in the log."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, GatehouseError):
        logger.warning("run failed run_id=%s code=%s message=%s", run_id, error.code, error)
        return as_failed(error)
    logger.error("run broke run_id=%s", run_id, exc_info=error)
    return INTERNAL
