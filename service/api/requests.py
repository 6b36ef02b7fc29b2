"""Every request has an id: in each line of the log that it causes, in its answer, and in its own line at the end."""

import logging
import re
import secrets
import time

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.access import Access
from service.api.addresses import is_from_proxy
from service.api.layer import Header, Layer, with_headers
from service.logs import REQUEST_ID, RUN_ID

logger = logging.getLogger(__name__)

HEADER = "X-Request-ID"
VALID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
"""128 bits in hexadecimal or a UUID: a proxy that passes a client's header on must not carry words into the log."""
PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
"""Asked every few seconds by machines: worth a line only where they fail."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
NO_ROUTE = "-"


class RequestLog(Layer):
    """Stands outside everything. uvicorn's own access log is off: it writes query strings, in which quotes stand."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        super().__init__(app)
        self._access = access

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = given_id(HTTPConnection(scope), self._access) or secrets.token_hex(16)
        REQUEST_ID.set(request_id)
        RUN_ID.set("")  # a connection's next request may begin in the context of the one before
        began, status = time.perf_counter(), 0

        def id_of(head: Message) -> list[Header]:
            nonlocal status
            status = head["status"]
            return [(HEADER.lower().encode(), request_id.encode())]

        try:
            await self._app(scope, receive, with_headers(send, id_of))
        finally:
            log_request(scope, status, (time.perf_counter() - began) * 1000)


def given_id(request: HTTPConnection, access: Access) -> str:
    """The id that a configured proxy gave, or "": anybody can send the header, and anything in it."""
    given = request.headers.getlist(HEADER)
    if len(given) != 1 or not is_from_proxy(request, access.proxies):
        return ""
    return given[0] if VALID.fullmatch(given[0]) else ""


def log_request(scope: Scope, status: int, ms: float) -> None:
    """The route's pattern and not the address, in which a client may write what it likes."""
    route = route_of(scope)
    level = logging.DEBUG if route in PROBES and status < 400 else logging.INFO
    fields = {
        "method": scope["method"] if scope["method"] in METHODS else NO_ROUTE,
        "route": route,
        "status": status,
        "ms": round(ms, 1),
        "client": scope["state"].get("client") or NO_ROUTE,
    }
    logger.log(level, "request", extra={"fields": fields})


def route_of(scope: Scope) -> str:
    """`/threads/{thread_id}` and the like; `-` where the request was refused before, or fits no route."""
    for folder in ("/ui/", "/site/"):
        if scope["path"].startswith(folder) or scope.get("root_path", "").startswith(folder.rstrip("/")):
            return f"{folder}*"
    return getattr(scope.get("route"), "path", NO_ROUTE)
