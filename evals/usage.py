"""Wrong input to a command, shown as typer shows it: a line that says what to do, exit 2, no traceback."""

from collections.abc import Callable
from typing import TypeVar

import typer

from service.errors import GatehouseError

Done = TypeVar("Done")


def usage(work: Callable[[], Done], *also: type[Exception]) -> Done:
    """Return what `work` does. What the caller or the operator has to mend is raised as `typer.BadParameter`."""
    faults: tuple[type[Exception], ...] = (GatehouseError, OSError, *also)
    try:
        return work()
    except faults as fault:
        raise typer.BadParameter(str(fault)) from None
