"""The client's threads: list and search, read again, rename, erase."""

import asyncio
import re
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.responses import Response

from service.api.auth import client_of
from service.api.body import read_json
from service.api.deps import ApiState, api_state
from service.api.events import Answer, ModelText, SourceItem, WebItem
from service.api.problems import ERRORS
from service.errors import NotFound
from service.graph.state import State
from service.model import StoredSource, Turn
from service.record import ErasureRecord
from service.threads import THREAD_ID, ThreadRef, ThreadSummary

router = APIRouter(prefix="/threads", responses={404: ERRORS[404], 422: ERRORS[422]})

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

Skill = Annotated[str, Query(max_length=64)]
Wanted = Annotated[str, Query(max_length=200, description="words that a title must hold, in any order and any case")]


class ThreadItem(BaseModel):
    thread_id: str
    skill: str
    title: str
    created_at: str
    updated_at: str
    turns: int


class ThreadList(BaseModel):
    threads: list[ThreadItem]


class SentItem(WebItem):
    """`sent` is every query that left for the web in the turn, in order."""

    sent: list[ModelText]


class TurnItem(Answer):
    """A turn as it was answered: the same numbers, quotes and statuses as the stream gave."""

    question: str
    standalone: ModelText
    asked_at: str
    web_search: bool
    web: SentItem
    model: str
    reranker: str


class ThreadDetail(ThreadItem):
    items: list[TurnItem]
    sources: list[SourceItem]
    busy: bool


def visible(title: str) -> str:
    """A title is a link to its thread: one that nobody sees cannot be opened."""
    if CONTROL.search(title):
        raise ValueError("must not hold a line break or another control character")
    if not any(character.isprintable() and not character.isspace() for character in title):
        raise ValueError("must hold at least one visible character")
    return title


class Rename(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    title: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(visible)]


class Kept(BaseModel):
    """What the audit log keeps of an erased conversation: `runs` records, and `text`, which says so in plain words."""

    runs: int
    text: str


class Erased(BaseModel):
    thread_id: str
    erased: bool
    audit: Kept


@router.get("")
async def list_threads(request: Request, q: Wanted = "") -> ThreadList:
    """The client's threads, newest first; with `q`, those whose title holds all of its words."""
    summaries = await api_state(request).history.threads(client_of(request))
    words = q.casefold().split()
    summaries = [summary for summary in summaries if all(word in summary.title.casefold() for word in words)]
    return ThreadList(threads=[ThreadItem.model_validate(s, from_attributes=True) for s in summaries])


@router.get("/{thread_id}", response_model=ThreadDetail)
async def read_thread(request: Request, thread_id: str, skill: Skill = "") -> Response:
    api, ref = api_state(request), thread_ref(request, thread_id, skill)
    summary = await api.history.summary(ref)
    state = await api.runs.thread(ref)
    busy = await api.runs.answering(ref)
    # A long thread takes seconds to render: in a thread, JSON included, so that no stream waits for it.
    told = await asyncio.to_thread(lambda: thread_detail(api, summary, state, busy).model_dump_json())
    return Response(told, media_type="application/json")


def thread_detail(api: ApiState, summary: ThreadSummary, state: State, busy: bool) -> ThreadDetail:
    return ThreadDetail(
        **ThreadItem.model_validate(summary, from_attributes=True).model_dump(),
        items=[turn_item(api, turn, state["registry"]) for turn in state["turns"]],
        sources=[api.presenter.source(item) for item in state["registry"]],
        busy=busy,
    )


def turn_item(api: ApiState, turn: Turn, registry: list[StoredSource]) -> TurnItem:
    answer = api.presenter.answer(turn, registry)
    return TurnItem(
        **answer.model_dump(),
        question=turn["question"],
        standalone=turn["standalone"],
        asked_at=turn["asked_at"],
        web_search=turn["web_search"],
        web=SentItem.model_validate(turn["web"]),
        model=turn["model"],
        reranker=turn["reranker"],
    )


@router.patch("/{thread_id}", responses=ERRORS)
async def rename_thread(request: Request, thread_id: str, skill: Skill = "") -> ThreadItem:
    api = api_state(request)
    renamed = await read_json(request, Rename, api.max_body_bytes, api.body_timeout_s)
    summary = await api.history.rename(thread_ref(request, thread_id, skill), renamed.title)
    return ThreadItem.model_validate(summary, from_attributes=True)


@router.delete("/{thread_id}", responses={409: ERRORS[409]})
async def erase_thread(request: Request, thread_id: str, skill: Skill = "") -> Erased:
    """Erase the conversation. A thread that is still answering is not erased: stop it first.

    The erasure is recorded before it is done, and the audit log keeps its records of the thread's runs.
    """
    api, ref = api_state(request), thread_ref(request, thread_id, skill)
    async with api.runs.holding(ref):
        await api.history.known(ref)
        api.audit.check()
        kept = await api.audit.runs_of(ref.key)
        await api.audit.append("erasure", erasure_of(ref, kept))
        await api.history.erase(ref)
    return Erased(thread_id=thread_id, erased=True, audit=Kept(runs=kept, text=kept_text(kept)))


def erasure_of(ref: ThreadRef, runs: int) -> ErasureRecord:
    return {
        "client": ref.client,
        "thread_id": ref.thread_id,
        "thread_key": ref.key,
        "skill": ref.skill,
        "runs_kept": runs,
    }


def kept_text(runs: int) -> str:
    return (
        f"The conversation is erased. The audit log keeps its {runs} record(s) of it whole: who asked and when, each "
        "question and answer, what was shown and why. They prove what was answered, and cannot be taken out of the log "
        "without breaking it. They are no longer shown to you; the operator can read them, and can say for how long "
        "the log is kept."
    )


def thread_ref(request: Request, thread_id: str, skill: str) -> ThreadRef:
    if not THREAD_ID.fullmatch(thread_id):
        raise NotFound("There is no such thread.")
    return ThreadRef(client_of(request), thread_id, skill)
