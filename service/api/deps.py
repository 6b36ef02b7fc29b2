"""What the routes are handed: one typed bundle, put on the application by `create_app`."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from starlette.requests import HTTPConnection

from service.api.access import Access
from service.api.ages import Ages
from service.api.body import BODY_TIMEOUT_S
from service.api.present import Presenter
from service.graph.history import History
from service.graph.runs import Runs
from service.knowledge.snapshots import Snapshots
from service.model import ComponentState
from service.observe.metrics import Metrics
from service.ports import AuditSink, FeedbackObserver, KnowledgeBase, RateLimiter
from service.skills.registry import Skills


@dataclass(frozen=True, slots=True)
class ApiState:
    runs: Runs
    history: History
    knowledge: KnowledgeBase
    snapshots: Snapshots
    presenter: Presenter
    audit: AuditSink
    readiness: Callable[[], Awaitable[list[ComponentState]]]
    access: Access
    limiter: RateLimiter
    max_body_bytes: int
    ping_s: float
    instance: str = ""
    body_timeout_s: float = BODY_TIMEOUT_S
    site: Path | None = None
    skills: Skills = field(default_factory=Skills)
    feedback_observers: Sequence[FeedbackObserver] = ()
    web_allowed: bool = True
    metrics: Metrics = field(default_factory=Metrics)
    metrics_here: bool = True
    ages: Ages = field(default_factory=Ages)
    one_feedback: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Words of feedback are counted and added one after the other."""


def api_state(connection: HTTPConnection) -> ApiState:
    return cast(ApiState, connection.app.state.api)
