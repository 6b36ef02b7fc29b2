"""The methods of a path: HEAD wherever GET is, and in the refusal of any other the list of those that it has."""

from starlette.requests import Request
from starlette.routing import Match, Mount
from starlette.types import Message, Receive, Scope, Send

from service.api.layer import Layer

METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")
RANGES = frozenset({b"range", b"if-range"})


class HeadAsGet(Layer):
    """Answers HEAD as GET is answered, without the content (RFC 9110, section 9.3.2).

    Everything within sees a GET: the same checks, the same route, the same headers, and the answer to a fault as well.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        asked = as_get(scope)
        try:
            await self._app(asked, receive, without_content(send))
        finally:
            # The route that was found is for the log, which stands outside.
            scope.update({**asked, "method": scope["method"], "headers": scope["headers"]})


def as_get(scope: Scope) -> Scope:
    """The same request as a GET, of the whole: a range is defined for GET alone (RFC 9110, section 14.2)."""
    return {**scope, "method": "GET", "headers": [item for item in scope["headers"] if item[0].lower() not in RANGES]}


def without_content(send: Send) -> Send:
    async def send_without_content(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return send_without_content


def allow(request: Request, stated: str = "") -> str:
    """The `Allow` header of a 405: every method of the path (RFC 9110, section 15.5.6).

    Each route knows its own methods only, and several stand on one path. What is mounted has no routes of ours: there
    `stated`, its own word, holds.
    """
    scope = {**request.scope, "root_path": request.scope.get("app_root_path", request.scope.get("root_path", ""))}
    routes = [route for route in request.app.routes if not isinstance(route, Mount)]

    def is_answered(method: str) -> bool:
        return any(route.matches({**scope, "method": method})[0] is Match.FULL for route in routes)

    methods = {method for method in METHODS if is_answered(method)} or set(stated.replace(" ", "").split(",")) - {""}
    return ", ".join(sorted(methods | {"HEAD"} if "GET" in methods else methods))
