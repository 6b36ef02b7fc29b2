"""GET /sources/{passage_id}: the stored snapshot of a passage's page, with the quote marked."""

import asyncio
from html import escape
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import HTMLResponse, JSONResponse, Response

from service.api.auth import client_of
from service.api.chat import wants_json
from service.api.deps import ApiState, api_state
from service.api.problems import ERRORS
from service.citations.grounding import quote_spans
from service.errors import NotFound
from service.knowledge.snapshots import Snapshot
from service.model import LABELS, Label, Span

router = APIRouter(prefix="/sources", responses={404: ERRORS[404], 422: ERRORS[422]})

QUOTE_ID = ' id="quote"'
NOT_FOUND = "There is no such source."


class SourceDetail(BaseModel):
    """A stored passage. `text` is verbatim; `blocks` is its whole page as it was read."""

    passage_id: str
    sha256: str
    label: Label
    title: str
    source: str
    address: str
    section: str
    fetched_at: str
    text: str
    blocks: list[str]


@router.get(
    "/{passage_id}",
    response_class=Response,
    responses={200: {"model": SourceDetail, "content": {"text/html": {}}, "description": "HTML, or JSON on request."}},
)
async def read_source(
    request: Request,
    passage_id: str,
    v: Annotated[str, Query(description="sha256 of the snapshot; the one in the index when absent")] = "",
    q: Annotated[str, Query(max_length=4000, description="the quote to mark")] = "",
) -> Response:
    """The page as it was read when the passage was cited, also after the index has moved on.

    Any client may open what the index holds. Pages from the web, and those that have left the index, are shown to the
    clients whose answers showed them.
    """
    api = api_state(request)
    snapshot = await snapshot_of(api, client_of(request), passage_id, v)
    spans = snapshot.spans[passage_id]
    if wants_json(request):
        found = await asyncio.to_thread(detail, snapshot, passage_id, spans)
        return JSONResponse(found.model_dump(mode="json"))
    return HTMLResponse(await asyncio.to_thread(snapshot_page, snapshot, spans, q))


async def snapshot_of(api: ApiState, client: str, passage_id: str, sha256: str) -> Snapshot:
    """Raises `NotFound`, before anything is read: a foreign snapshot takes as long as an unknown one."""
    if not sha256 or not await was_shown(api, client, passage_id, sha256):
        passage = await api.knowledge.get(passage_id)
        if passage is None:
            raise NotFound(NOT_FOUND)
        sha256 = sha256 or passage.sha256
    snapshot = await asyncio.to_thread(api.snapshots.get, sha256)
    if snapshot is None or passage_id not in snapshot.spans:
        raise NotFound(NOT_FOUND)
    return snapshot


async def was_shown(api: ApiState, client: str, passage_id: str, sha256: str) -> bool:
    return api.runs.showing(client, passage_id, sha256) or await api.history.shown.holds(client, passage_id, sha256)


def detail(snapshot: Snapshot, passage_id: str, spans: tuple[Span, ...]) -> SourceDetail:
    blocks = [block.text for block in snapshot.page.blocks]
    return SourceDetail(
        passage_id=passage_id,
        sha256=snapshot.sha256,
        label=LABELS[snapshot.kind],
        title=snapshot.page.title,
        source=snapshot.source,
        address=snapshot.address,
        section=snapshot.page.blocks[spans[0].block].section,
        fetched_at=snapshot.fetched_at,
        text="\n".join(blocks[span.block][span.start : span.end] for span in spans),
        blocks=blocks,
    )


def snapshot_page(snapshot: Snapshot, spans: tuple[Span, ...], quote: str) -> str:
    """A page without script: every character of the source is escaped, and the quote stands in <mark>."""
    blocks = [block.text for block in snapshot.page.blocks]
    marked = quote_spans(quote, blocks, spans) if quote else list(spans)
    by_block: dict[int, list[Span]] = {}
    for span in marked:
        by_block.setdefault(span.block, []).append(span)
    anchor = marked[0].block if marked else spans[0].block
    body = "\n".join(
        f"<p{QUOTE_ID if number == anchor else ''}>{marked_text(text, by_block.get(number, []))}</p>"
        for number, text in enumerate(blocks)
        if snapshot.page.blocks[number].content
    )
    label = LABELS[snapshot.kind]
    facts = f"{snapshot.source} · {snapshot.address or 'no address'} · read {snapshot.fetched_at}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(snapshot.page.title)}</title>"
        '<link rel="stylesheet" href="/ui/style.css"></head><body class="snapshot"><main>'
        f"<h1>{escape(snapshot.page.title)}</h1>"
        f'<p class="facts">[{label}] {escape(facts)}<br>sha256 {snapshot.sha256}</p>'
        f'<p><a href="#quote">Go to the quote</a></p>\n{body}\n</main></body></html>\n'
    )


def marked_text(text: str, spans: list[Span]) -> str:
    """Escape a block's text, with its spans in <mark>. Spans of one block do not overlap."""
    parts: list[str] = []
    at = 0
    for span in sorted(spans, key=lambda span: span.start):
        parts += [escape(text[at : span.start]), "<mark>", escape(text[span.start : span.end]), "</mark>"]
        at = span.end
    return "".join([*parts, escape(text[at:])])
