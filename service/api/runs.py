"""Stopping a run."""

from fastapi import APIRouter, Request
from pydantic import BaseModel

from service.api.auth import client_of
from service.api.deps import api_state
from service.api.problems import ERRORS

router = APIRouter(prefix="/runs", responses={404: ERRORS[404], 422: ERRORS[422]})


class Stopping(BaseModel):
    run_id: str
    stopping: bool


@router.delete("/{run_id}", status_code=202)
async def stop_run(request: Request, run_id: str) -> Stopping:
    """Stop the client's own run. Its stream ends with `error`, code `cancelled`; no half turn is stored."""
    api_state(request).runs.find(run_id, client_of(request)).stop()
    return Stopping(run_id=run_id, stopping=True)
