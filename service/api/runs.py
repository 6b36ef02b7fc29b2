"""A run by its id: stop it, read its record, say what one thinks of its answer."""

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from service.api.auth import client_of
from service.api.body import read_json
from service.api.deps import ApiState, api_state
from service.api.problems import ERRORS
from service.errors import InvalidRequest, NotFound, ThreadBusy, ThreadsUnavailable
from service.graph.locks import holding
from service.record import FeedbackRecord, RecordedRun, StoredRecord, Thumbs

logger = logging.getLogger(__name__)

router = APIRouter(prefix="/runs", responses={404: ERRORS[404], 422: ERRORS[422]})

MAX_FEEDBACK = 20
"""Of one run: a person changes their mind a few times, a script fills a disk.

The log is what counts them, and not the limiter: they are of a run's whole life, and the limiter forgets in a minute.
"""
WORD_S = 2.0
"""For another replica to add its word. It takes as long as one record."""


class Stopping(BaseModel):
    run_id: str
    stopping: bool


class FeedbackItem(BaseModel):
    at: str
    thumbs: Thumbs
    comment: str


class ScoreItem(BaseModel):
    """One score of the answer, 0..1, higher is better. `detail` is what was counted, `words` are the judge's."""

    at: str
    judge: str
    name: str
    value: float
    detail: str
    words: str


class RunDetail(BaseModel):
    """A run's record as the audit log holds it. `seq` and `hash` are its place in the chain.

    `scores` come after the answer, where a judge is set: at first there are none.
    """

    run_id: str
    seq: int
    recorded_at: str
    hash: str
    record: dict[str, Any]
    feedback: list[FeedbackItem]
    scores: list[ScoreItem]


def no_nul(text: str) -> str:
    if "\x00" in text:
        raise ValueError("must not hold a NUL character")
    return text


class Feedback(BaseModel):
    """What a person thinks of an answer."""

    model_config = ConfigDict(extra="forbid", strict=True)

    thumbs: Thumbs
    comment: Annotated[str, Field(max_length=2000), AfterValidator(no_nul)] = ""


class FeedbackKept(BaseModel):
    run_id: str
    kept: bool


@router.delete("/{run_id}", status_code=202)
async def stop_run(request: Request, run_id: str) -> Stopping:
    """Stop the client's own run. Its stream ends with `error`, code `cancelled`; no half turn is stored.

    What had been shown by then is kept in the run's record, marked as not complete.
    """
    await api_state(request).runs.stop(run_id, client_of(request))
    return Stopping(run_id=run_id, stopping=True)


@router.get("/{run_id}", responses={409: ERRORS[409]})
async def read_run(request: Request, run_id: str) -> RunDetail:
    """The record of the client's own run: which passages came back, how each was graded, which way each fork went."""
    return detail_of(await own_run(api_state(request), run_id, client_of(request)))


@router.post("/{run_id}/feedback", status_code=201, responses=ERRORS)
async def give_feedback(request: Request, run_id: str) -> FeedbackKept:
    """Add the client's word on an answer to the audit log. Another word later stands beside it."""
    api, client = api_state(request), client_of(request)
    given = await read_json(request, Feedback, api.max_body_bytes, api.body_timeout_s)
    await own_run(api, run_id, client)  # before the lock: who may not say a word here waits for nobody
    async with one_word(api, run_id):
        record = await added_feedback(api, await own_run(api, run_id, client), given)
    shown_to_observers(api, record)
    return FeedbackKept(run_id=run_id, kept=True)


@asynccontextmanager
async def one_word(api: ApiState, run_id: str) -> AsyncIterator[None]:
    """One word at a time in this process, and on this run among all replicas.

    Where their lock cannot be had a word is taken all the same: at worst each replica adds one more than it should.
    """
    async with api.one_feedback, AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(holding(api.history.locks, f"feedback {run_id}", WORD_S))
        except ThreadsUnavailable as away:
            logger.warning("feedback counted in this process alone run_id=%s (%s)", run_id, away)
        yield


async def added_feedback(api: ApiState, found: RecordedRun, given: Feedback) -> FeedbackRecord:
    """Under `one_word`: words that arrive together must not all be counted before any of them is added."""
    if len(found.feedback) >= MAX_FEEDBACK:
        raise InvalidRequest(f"This answer has {MAX_FEEDBACK} words of feedback already. No more are taken.")
    api.audit.check()
    record = feedback_on(found.run, given)
    await api.audit.append("feedback", record)
    return record


def shown_to_observers(api: ApiState, record: FeedbackRecord) -> None:
    """Tell whoever watches. The feedback is kept already: a fault of theirs is none of the client's."""
    for observer in api.feedback_observers:
        try:
            observer.feedback(record)
        except Exception:
            logger.exception("feedback not observed run_id=%s by=%s", record["run_id"], type(observer).__name__)


async def own_run(api: ApiState, run_id: str, client: str) -> RecordedRun:
    """Raises `NotFound` alike for an unknown, a foreign and an erased run, `ThreadBusy` for one under way."""
    if api.runs.under_way(run_id, client):
        raise ThreadBusy("This run is still answering. Its record is written when it ends.")
    found = await api.audit.run(run_id, client)
    if found is None:
        raise NotFound("There is no such run.")
    return found


def detail_of(found: RecordedRun) -> RunDetail:
    run = found.run
    return RunDetail(
        run_id=run.body["run_id"],
        seq=run.seq,
        recorded_at=run.at,
        hash=run.hash,
        record=run.body,
        feedback=[
            FeedbackItem(at=item.at, thumbs=item.body["thumbs"], comment=item.body["comment"])
            for item in found.feedback
        ],
        scores=[
            ScoreItem(at=item.at, judge=item.body["judge"]["model"], **score)
            for item in found.scores
            for score in item.body["scores"]
        ],
    )


def feedback_on(run: StoredRecord, given: Feedback) -> FeedbackRecord:
    return {
        "run_id": run.body["run_id"],
        "client": run.body["client"],
        "thread_id": run.body["thread_id"],
        "thread_key": run.body["thread_key"],
        "thumbs": given.thumbs,
        "comment": given.comment,
    }
