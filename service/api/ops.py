"""Alive, ready, and what skills there are."""

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from service.api.deps import api_state
from service.model import ComponentState

router = APIRouter()


class Alive(BaseModel):
    """`instance` is a random name of this process."""

    status: str = "alive"
    instance: str = ""


class DependencyItem(BaseModel):
    name: str
    ok: bool
    detail: str
    warning: str


class Readiness(BaseModel):
    ready: bool
    dependencies: list[DependencyItem]


class SkillList(BaseModel):
    skills: list[str]


@router.get("/healthz")
async def healthz(request: Request) -> Alive:
    return Alive(instance=api_state(request).instance)


@router.get("/readyz", responses={503: {"model": Readiness}})
async def readyz(request: Request, response: Response) -> Readiness:
    """Each dependency by name. 503 when one without which no answer is possible is away.

    The details are for clients: a probe without a key sees names and states only.
    """
    states = await api_state(request).readiness()
    ready = all(state.ok for state in states)
    if not ready:
        response.status_code = 503
    items = [shown(state, known=request.state.client is not None) for state in states]
    return Readiness(ready=ready, dependencies=items)


def shown(state: ComponentState, *, known: bool) -> DependencyItem:
    return DependencyItem(
        name=state.name, ok=state.ok, detail=state.detail if known else "", warning=state.warning if known else ""
    )


@router.get("/skills")
async def skills() -> SkillList:
    """No skill ships yet."""
    return SkillList(skills=[])
