"""A layer around the application: what every request passes on its way in, and every answer on its way out."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

Header = tuple[bytes, bytes]


class Layer(ABC):
    """Sees the requests. The server's start and end, and whatever else it speaks, pass by."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope.setdefault("state", {})
            await self.handle(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    @abstractmethod
    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or hand it on to `self._app`. `scope["state"]` is there."""


def with_headers(send: Send, added: Callable[[Message], Iterable[Header]]) -> Send:
    """Return `send`, with headers added to the head of the answer: those that `added` makes of it."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *added(message)]}
        await send(message)

    return send_with_headers
