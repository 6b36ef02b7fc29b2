"""GET /threads/{id}/export: a conversation, or one answer of it, as a Markdown file with its sources."""

import asyncio
import re
from collections.abc import Iterable, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from service.api.deps import api_state
from service.api.document import document
from service.api.problems import ERRORS
from service.api.threads import Skill, thread_ref
from service.errors import NotFound
from service.model import StoredSource, Turn

router = APIRouter(prefix="/threads", responses={404: ERRORS[404], 422: ERRORS[422]})

RunId = Annotated[str, Query(max_length=64, description="this answer alone, with the sources that it cites")]
MARKDOWN = {"content": {"text/markdown": {"schema": {"type": "string"}}}, "description": "A file to keep."}
MAX_NAME = 60


@router.get("/{thread_id}/export", response_class=Response, responses={200: MARKDOWN})
async def export_thread(request: Request, thread_id: str, skill: Skill = "", run_id: RunId = "") -> Response:
    """The conversation as a Markdown file: questions, answers with footnotes, verdicts, and each source with its hash.

    An answer stands in a block quote, as it was written. With `run_id` the file holds that answer alone.
    """
    api, ref = api_state(request), thread_ref(request, thread_id, skill)
    summary = await api.history.summary(ref)
    state = await api.runs.thread(ref)
    turns = dict(enumerate(state["turns"], start=1))
    sources = state["registry"]
    if run_id:
        turns = {number: turn for number, turn in turns.items() if turn["run_id"] == run_id}
        sources = cited_by(turns.values(), sources)
        if not turns:
            raise NotFound("There is no such answer in this thread.")
    text = await asyncio.to_thread(document, summary, turns, sources, api.presenter)
    disposition = f'attachment; filename="{file_name(summary.title)}"'
    return Response(text, headers={"Content-Disposition": disposition}, media_type="text/markdown; charset=utf-8")


def cited_by(turns: Iterable[Turn], sources: Sequence[StoredSource]) -> list[StoredSource]:
    numbers = {citation["n"] for turn in turns for citation in turn["citations"]}
    return [source for source in sources if source["n"] in numbers]


def file_name(title: str) -> str:
    """A name that every system takes, and no header can be forged with: ASCII letters, digits and hyphens."""
    words = re.findall(r"[a-z0-9]+", title.lower())
    return "-".join(["gatehouse", *words])[:MAX_NAME].rstrip("-") + ".md"
