"""`gatehouse ask`: one question in the terminal, to a running server when there is one, else in this process."""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from rich.console import Console
from rich.text import Text

from service.errors import GatehouseError, InvalidRequest, ServerFault, StreamCut, Unauthorized
from service.printable import on_one_line, printable

Event = dict[str, Any]
REASONS = {
    "not_grounded": "it was not supported by its sources",
    "unresolved_marker": "it cited something that is not a source",
    "quote_not_found": "it quoted words that no source holds",
    "no_citation": "it cited no source",
    "off_topic": "it did not answer the question",
    "abstained": "the sources do not hold the answer",
    "cut_short": "it was cut short",
    "not_assessed": "a judge gave no usable verdict",
}


KEY_WANTED = "The running server asks for a key. Set CLIENT_KEY to yours."
KEY_REFUSED = (
    "The running server does not accept the key in CLIENT_KEY. Set it to one that is known there: `gatehouse key NAME` "
    "makes one, and prints the line for the server's API_KEYS."
)
KEY_UNREADABLE = "The key in CLIENT_KEY holds characters that no key has. Set it as `gatehouse key NAME` printed it."
READABLE = re.compile(r"[!-~]*")


async def is_ours(url: str, instance: str) -> bool:
    """Whether the server that left its note still listens there: another program on that port gets no question."""
    try:
        async with httpx.AsyncClient(timeout=2, trust_env=False) as client:
            return bool((await client.get(f"{url}/healthz")).json()["instance"] == instance)
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return False


async def from_server(url: str, body: dict[str, Any], key: str = "") -> AsyncIterator[Event]:
    """Stream the events of a running server.

    Raises `InvalidRequest` or `ServerFault` with the server's own message, `StreamCut` when the stream ends without
    `done` or `error`.
    """
    ended = False
    try:
        async for event in events_of_chat(url, body, key):
            ended = event["type"] in ("done", "error")
            yield event
    except httpx.HTTPError as error:
        raise StreamCut(f"The connection to {url} broke ({type(error).__name__}). Please ask again.") from None
    if not ended:
        raise StreamCut(f"The server at {url} ended the stream in the middle of the answer. Please ask again.")


async def events_of_chat(url: str, body: dict[str, Any], key: str) -> AsyncIterator[Event]:
    if not READABLE.fullmatch(key):
        raise Unauthorized(KEY_UNREADABLE)
    timeout = httpx.Timeout(10, read=60)
    headers = {"Accept": "text/event-stream", "Content-Type": "application/json"}
    headers |= {"Authorization": f"Bearer {key}"} if key else {}
    content = json.dumps(body).encode()
    async with (
        httpx.AsyncClient(timeout=timeout, trust_env=False) as client,
        client.stream("POST", f"{url}/chat", content=content, headers=headers) as response,
    ):
        if response.status_code != 200:
            await response.aread()
            raise refusal(response, key)
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                yield json.loads(line[6:])


def refusal(response: httpx.Response, key: str) -> GatehouseError:
    """The server's error as ours: the caller's fault stays the caller's."""
    try:
        message = str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        message = f"The server answered {response.status_code}."
    if response.status_code == 401:
        return Unauthorized(KEY_REFUSED if key else KEY_WANTED)
    return InvalidRequest(message) if response.status_code < 500 else ServerFault(message)


@dataclass
class Terminal:
    """Prints a run as it happens: the draft as it streams, then what it stands on."""

    console: Console
    sources: dict[int, Event] = field(default_factory=dict)
    failed: bool = False
    skill: str = ""

    def show(self, event: Event) -> None:
        handler = getattr(self, f"on_{event['type']}", None)
        if handler is not None:
            handler(event)

    def on_run(self, event: Event) -> None:
        if event["skill"]:
            self.skill = str(event["skill"]["name"])
            self._line(f"skill: {self.skill}", "dim")
        for warning in event["warnings"]:
            self._line(f"note: {warning}", "yellow")

    def on_sources(self, event: Event) -> None:
        self.sources.update({item["n"]: item for item in event["items"]})
        for warning in event["warnings"]:
            self._line(f"note: {warning}", "yellow")

    def on_token(self, event: Event) -> None:
        self.console.print(Text(printable(event["text"])), end="")

    def on_reset(self, event: Event) -> None:
        reason = REASONS.get(event["reason"], event["reason"])
        self.console.print()
        self._line(f"-- draft withdrawn: {reason} --", "yellow")

    def on_done(self, event: Event) -> None:
        self.console.print()
        if event["warning"]:
            self._line(event["warning"], "bold yellow")
        statuses: dict[int, list[str]] = {}
        for citation in event["citations"]:
            statuses.setdefault(citation["n"], []).append(citation["status"])
        for n in sorted(statuses):
            self._source(n, statuses[n])
        self.console.print()
        self._line(f"{event['status']}: {verdict_line(event)}", "bold")
        with_skill = f" --skill {self.skill}" if self.skill else ""
        self._line(f"go on with --thread {event['thread_id']}{with_skill}", "dim")

    def _source(self, n: int, statuses: list[str]) -> None:
        item = self.sources.get(n)
        if item is None:
            return
        head = f"[[{n}]] [{item['label']}] {item['title']}  {item['section']}  ({', '.join(sorted(set(statuses)))})"
        self.console.print()
        self._line(head, "cyan")
        self._line(f"      {item['link']}", soft_wrap=True)

    def on_error(self, event: Event) -> None:
        self.failed = True
        self.console.print()
        self._line(f"error ({event['code']}): {event['message']}", "bold red")

    def _line(self, text: str, style: str = "", *, soft_wrap: bool = False) -> None:
        """What the server, a page or a skill says is one line, and only a line."""
        self.console.print(Text(on_one_line(text), style), soft_wrap=soft_wrap)


def verdict_line(event: Event) -> str:
    verdicts = ", ".join(f"{item['gate']} {item['result']}" for item in event["verdicts"])
    attempts = 1 + event["rewrites"] + event["regens"]
    return f"{verdicts or 'no verdicts'}; attempt {attempts}; {event['timings']['total'] / 1000:.1f} s"
