"""The real Redis is started where a test asks for it; what a command sets for the whole process is undone."""

import logging
import warnings
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.ratelimit.redis_server import redis_server

__all__ = ["redis_server"]

# How long one example takes depends on what else the machine does: it is no property of the code.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """A command that a test runs within this process sets where the logs go, and how many: for itself only."""
    root, shown = logging.getLogger(), warnings.showwarning
    level, handlers = root.level, list(root.handlers)
    yield
    logging.captureWarnings(False)
    warnings.showwarning = shown
    root.handlers[:] = handlers
    root.setLevel(level)
