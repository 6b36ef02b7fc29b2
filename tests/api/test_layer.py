"""What stands around the application sees requests only, and adds to the head of an answer."""

from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from service.api.app import create_app
from service.api.door import Door
from service.api.headers import PageHeaders
from service.api.layer import Layer, with_headers
from service.api.requests import RequestLog
from tests.api.guarded import access
from tests.fakes import ScriptedModel, services
from tests.running import House
from tests.served import api_of, nothing_to_report


class Inside:
    """An application that notes what reaches it."""

    def __init__(self) -> None:
        self.reached: list[Scope] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as ASGI has it
        self.reached.append(scope)


def layers(app: Inside, folder: Path) -> list[Layer]:
    rules = access(folder)  # nobody is let in
    return [Door(app, rules), PageHeaders(app), RequestLog(app, rules)]


async def nothing() -> Message:
    raise AssertionError("nothing is read here")


@pytest.mark.parametrize("kind", ["lifespan", "websocket"])
async def test_what_is_no_request_passes_every_layer_as_it_came(tmp_path: Path, kind: str) -> None:
    async def never(message: Message) -> None:
        raise AssertionError(message)

    inside = Inside()
    for layer in layers(inside, tmp_path):
        scope: Scope = {"type": kind}
        await layer(scope, nothing, never)
        assert inside.reached.pop() is scope
        assert scope == {"type": kind}


async def test_every_layer_around_the_application_is_of_this_one_kind(tmp_path: Path) -> None:
    api = api_of(House(services(tmp_path), ScriptedModel()), 15, 65536, 10, nothing_to_report)
    outer: Any = create_app(api).build_middleware_stack()
    found = []
    while isinstance(outer, Layer):
        found.append(type(outer))
        outer = outer._app
    assert found[:2] == [RequestLog, PageHeaders]
    assert issubclass(Door, Layer)


async def test_headers_are_added_to_the_head_alone_and_none_is_taken_away() -> None:
    sent: list[Message] = []

    async def keep(message: Message) -> None:
        sent.append(message)

    send = with_headers(keep, lambda head: [(b"x-status", str(head["status"]).encode())])
    await send({"type": "http.response.start", "status": 204, "headers": [(b"a", b"1")]})
    await send({"type": "http.response.body", "body": b""})
    assert sent == [
        {"type": "http.response.start", "status": 204, "headers": [(b"a", b"1"), (b"x-status", b"204")]},
        {"type": "http.response.body", "body": b""},
    ]
