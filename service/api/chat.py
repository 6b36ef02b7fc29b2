"""POST /chat: a question in, a gated, cited answer out, as a stream of events or as one JSON object."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter
from starlette.responses import JSONResponse, Response

from service.api.auth import client_of
from service.api.body import read_json
from service.api.deps import ApiState, api_state
from service.api.events import WireFrame
from service.api.limits import count
from service.api.problems import ERRORS, problem
from service.api.sse import EventStream, stop_on_disconnect
from service.graph.events import Failed, Terminal
from service.graph.run import Request as RunRequest
from service.graph.run import Run
from service.graph.runs import Runs
from service.model import Delivery
from service.skills.registry import Skills
from service.threads import THREAD_ID, ThreadRef, new_thread_id

router = APIRouter()

MAX_QUESTION = 8000


def readable(text: str) -> str:
    """Refuse what no one can have meant as a question."""
    if "\x00" in text:
        raise ValueError("must not hold a NUL character")
    if not any(character.isalnum() for character in text):
        raise ValueError("must hold at least one letter or digit")
    return text


Question = Annotated[str, Field(min_length=1, max_length=MAX_QUESTION), AfterValidator(readable)]


class ChatRequest(BaseModel):
    """What a client may ask. `web_search` must be a JSON boolean: the web is searched only where it is `true`.

    `skill` names one of GET /skills; a question that begins with `/name ` does so too.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    question: Question
    thread_id: str = Field(default_factory=new_thread_id, pattern=f"^{THREAD_ID.pattern}$")
    web_search: bool = False
    skill: str | None = Field(None, max_length=64)
    delivery: Delivery = "draft"


CHAT_DOCS: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ChatRequest"}}},
    },
}
CHAT_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A stream of events; with `Accept: application/json` the `done` object alone.",
        "content": {
            "text/event-stream": {"schema": {"$ref": "#/components/schemas/WireFrame"}},
            "application/json": {"schema": {"$ref": "#/components/schemas/DoneFrame"}},
        },
    },
    **ERRORS,
}


@router.post("/chat", openapi_extra=CHAT_DOCS, responses=CHAT_RESPONSES, response_class=Response)
async def chat(request: Request) -> Response:
    """Ask a question. The knowledge base is always searched; the web only with `web_search: true`."""
    api, client = api_state(request), client_of(request)
    await count(request, client, "ask")
    asked = await read_json(request, ChatRequest, api.max_body_bytes, api.body_timeout_s)
    run = start_run(api.runs, api.skills, asked, client)
    await run.admitted()
    if wants_json(request):
        return await whole_answer(run, request, api)
    return EventStream(run, api.presenter, api.ping_s)


def start_run(runs: Runs, skills: Skills, asked: ChatRequest, client: str) -> Run:
    """Begin the run on the skill's own thread.

    Raises `UnknownSkill`, `InvalidRequest`, `ShuttingDown`, `TooManyRuns`, `Overloaded`, `AuditUnavailable` or
    `ThreadBusy` before any event.
    """
    skill, question = skills.chosen(asked.skill, asked.question)
    ref = ThreadRef(client, asked.thread_id, skill.name)
    return runs.start(RunRequest(ref, question, asked.web_search, asked.delivery, skill))


def wants_json(request: Request) -> bool:
    accept = request.headers.get("accept", "")
    return "application/json" in accept and "text/event-stream" not in accept


async def whole_answer(run: Run, request: Request, api: ApiState) -> Response:
    watch = asyncio.create_task(stop_on_disconnect(run, request.receive))
    try:
        async for told in run.events():
            if isinstance(told.event, Failed):
                return problem(told.event.status, told.event.code, told.event.message, told.event.retryable)
            if isinstance(told.event, Terminal):
                frame = api.presenter.frame(told, run.run_id)
                return JSONResponse(frame.model_dump(mode="json"), headers={"Cache-Control": "no-store"})
        raise AssertionError("a run ends in a terminal event")
    finally:
        watch.cancel()
        run.stop("reader_left")


def event_schemas() -> dict[str, Any]:
    """JSON schemas of the request and of each event, by name."""
    template = "#/components/schemas/{model}"
    wire = TypeAdapter(WireFrame).json_schema(ref_template=template, mode="serialization")
    asked = ChatRequest.model_json_schema(ref_template=template)
    found = {**wire.pop("$defs"), **asked.pop("$defs", {})}
    return {**found, "WireFrame": wire, "ChatRequest": asked}
