"""Headers that every answer of ours carries: what a page may load, who may keep it, and what is left of the limit."""

import math

from starlette.types import Message, Receive, Scope, Send

from service.api.layer import Header, Layer, with_headers
from service.ports import WINDOW_S, Allowance

PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
NOT_KEPT = {"Cache-Control": "no-store"}


class PageHeaders(Layer):
    """Stands outside everything, so that an answer to a fault of ours carries them too.

    The demo's `/site/` stands for pages that are not ours.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].startswith("/site/"):
            await self._app(scope, receive, send)
        else:
            await self._app(scope, receive, with_headers(send, lambda head: missing_headers(scope, head)))


def missing_headers(scope: Scope, head: Message) -> list[Header]:
    """What a route has set itself stands."""
    known = {name.lower() for name, _ in head["headers"]}
    fixed = PAGE_HEADERS if scope["path"].startswith("/ui/") else PAGE_HEADERS | NOT_KEPT
    wanted = fixed | rate_headers(scope["state"].get("allowance"))
    headers = [(name.lower().encode(), value.encode()) for name, value in wanted.items()]
    return [header for header in headers if header[0] not in known]


def seconds_left(allowance: Allowance) -> int:
    """Whole seconds, rounded up, until one more is allowed."""
    return max(1, math.ceil(allowance.reset_s))


def rate_headers(allowance: Allowance | None) -> dict[str, str]:
    """`RateLimit-*` as in draft-ietf-httpapi-ratelimit-headers-07: seconds are whole, and rounded up."""
    if allowance is None:
        return {}
    reset = str(seconds_left(allowance))
    headers = {
        "RateLimit-Limit": str(allowance.limit),
        "RateLimit-Remaining": str(allowance.remaining),
        "RateLimit-Reset": reset,
        "RateLimit-Policy": f"{allowance.limit};w={WINDOW_S:.0f}",
    }
    return headers if allowance.allowed else headers | {"Retry-After": reset}
