"""What a command says to the person who ran it, on standard error: its result alone is on standard output."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from service.errors import GatehouseError
from service.logs import log_to, style_for
from service.printable import printable
from service.settings import Settings

say = Console(stderr=True)
logger = logging.getLogger(__name__)

Tell = Callable[[str, str], None]
"""Says a line in a style."""


def tell(line: str, style: str) -> None:
    """Say a line in a style. Nothing in it is read as markup, and none of it steers the terminal."""
    say.print(printable(line), style=style, markup=False, highlight=False, soft_wrap=True)


def progress(line: str) -> None:
    tell(line, "dim")


def fault(error: Exception) -> None:
    tell(f"error: {error}", "bold red")


def log_line(line: str, style: str) -> None:
    """`tell` for whoever reads the log by machine."""
    logger.log(logging.WARNING if style in ("red", "yellow") else logging.INFO, "%s", line.strip())


@contextmanager
def logging_of_a_server(settings: Settings) -> Iterator[Tell]:
    """Log as the settings say; yields how to say what happens at start. A fault that has a name is said so, too."""
    style = style_for(settings.LOG_FORMAT)
    log_to(sys.stderr, logging.INFO, style)
    if style == "text":
        yield tell
        return
    try:
        yield log_line
    except GatehouseError as error:
        logger.error("%s", error)
        raise typer.Exit(1) from None
