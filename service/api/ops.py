"""Alive, ready, and what skills there are."""

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from service.api.ages import Condition, condition_of
from service.api.auth import may_scrape
from service.api.deps import api_state
from service.api.problems import ERRORS
from service.errors import MetricsRefused, NotFound
from service.model import ComponentState
from service.observe.metrics import CONTENT_TYPE
from service.skills.report import Allowlist, summary

router = APIRouter()


class Alive(BaseModel):
    """`instance` is a random name of this server, the same in each of its workers."""

    status: str = "alive"
    instance: str = ""


class DependencyItem(BaseModel):
    """`for_s` is for how long it has been seen in this `state`: `away`, or `ok` with or without a `warning`."""

    name: str
    ok: bool
    state: Condition
    for_s: float
    detail: str
    warning: str


class Readiness(BaseModel):
    ready: bool
    dependencies: list[DependencyItem]


class SkillWeb(BaseModel):
    """Where `allowed` is true a request may ask for the web; what may then be read is `domains`."""

    allowed: bool
    domains: Allowlist


class SkillItem(BaseModel):
    """A skill: what it is for, what it may read, and the hash of its two files."""

    name: str
    description: str
    sources: Allowlist
    kinds: Allowlist
    web: SkillWeb
    sha256: str


class SkillList(BaseModel):
    """`web_search`: whether the operator lets any question ask for the web; a skill may forbid it all the same."""

    skills: list[SkillItem]
    web_search: bool


@router.get("/healthz")
async def healthz(request: Request) -> Alive:
    return Alive(instance=api_state(request).instance)


@router.get("/readyz", responses={503: {"model": Readiness}})
async def readyz(request: Request, response: Response) -> Readiness:
    """Each dependency by name, and for how long it has been as it is.

    503 when one without which no answer is possible is away. The details are for clients: a probe without a key
    sees names and states only.
    """
    states = await api_state(request).readiness()
    ready = all(state.ok for state in states)
    if not ready:
        response.status_code = 503
    ages, known = api_state(request).ages, request.state.client is not None
    items = [shown(state, ages.seen(state), known=known) for state in states]
    return Readiness(ready=ready, dependencies=items)


def shown(state: ComponentState, for_s: float, *, known: bool) -> DependencyItem:
    return DependencyItem(
        name=state.name,
        ok=state.ok,
        state=condition_of(state),
        for_s=round(for_s, 1),
        detail=state.detail if known else "",
        warning=state.warning if known else "",
    )


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}, 403: ERRORS[403], 404: ERRORS[404]},
)
async def metrics(request: Request) -> Response:
    """The numbers for Prometheus. No key: the address decides who may read them."""
    api = api_state(request)
    if not may_scrape(request, api.access):
        raise MetricsRefused("Metrics are read from this machine and from METRICS_NETWORKS.")
    if not api.metrics_here:
        raise NotFound("Metrics are not on this port: set METRICS_PORT, and read each worker's on its own.")
    return Response(api.metrics.text(), media_type=CONTENT_TYPE)


@router.get("/skills")
async def skills(request: Request) -> SkillList:
    """The skills that a question may name, and whether it may ask for the web."""
    api = api_state(request)
    return SkillList(
        skills=[SkillItem.model_validate(summary(skill)) for skill in api.skills], web_search=api.web_allowed
    )
