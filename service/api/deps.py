"""What the routes are handed: one typed bundle, put on the application by `create_app`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from starlette.requests import HTTPConnection

from service.api.body import BODY_TIMEOUT_S
from service.api.present import Presenter
from service.graph.history import History
from service.graph.run import Runs
from service.knowledge.snapshots import Snapshots
from service.model import ComponentState
from service.ports import AuditSink, KnowledgeBase


@dataclass(frozen=True, slots=True)
class ApiState:
    runs: Runs
    history: History
    knowledge: KnowledgeBase
    snapshots: Snapshots
    presenter: Presenter
    audit: AuditSink
    readiness: Callable[[], Awaitable[list[ComponentState]]]
    max_body_bytes: int
    ping_s: float
    instance: str = ""
    body_timeout_s: float = BODY_TIMEOUT_S
    site: Path | None = None


def api_state(connection: HTTPConnection) -> ApiState:
    return cast(ApiState, connection.app.state.api)
