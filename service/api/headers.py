"""Headers that every answer of ours carries: what a page may load, who may keep it, and what is left of the limit."""

import math

from starlette.types import ASGIApp, Message, Receive, Scope, Send

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


class PageHeaders:
    """Stands outside everything, so that an answer to a fault of ours carries them too.

    The demo's `/site/` stands for pages that are not ours.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith("/site/"):
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in message["headers"]}
                fixed = PAGE_HEADERS if scope["path"].startswith("/ui/") else PAGE_HEADERS | NOT_KEPT
                wanted = fixed | rate_headers(state.get("allowance"))
                extra = [(name.lower().encode(), value.encode()) for name, value in wanted.items()]
                message = {**message, "headers": [*message["headers"], *(e for e in extra if e[0] not in known)]}
            await send(message)

        await self._app(scope, receive, send_with_headers)


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
