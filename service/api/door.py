"""The checks before any route, on every request: the name asked for, the page that asks, and who asks.

What is not listed as open needs a client, so that a new route is closed until someone opens it.
"""

from html import escape
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.access import Access
from service.api.auth import identify
from service.api.layer import Layer
from service.api.problems import problem_of
from service.errors import CallerError, HeadTooLarge, HostRefused, OriginRefused, Unauthorized

OPEN_PATHS = frozenset({"/", "/session", "/healthz", "/readyz", "/metrics", "/openapi.json"})
OPEN_FOLDERS = ("/ui/", "/site/")
MAX_HEAD_BYTES = 32_768
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
CROSS_SITE = frozenset({"cross-site", "same-site"})

SIGN_IN_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Sign in</title><link rel="stylesheet" href="/ui/style.css"></head>
<body class="snapshot"><main><h1>Please sign in</h1>
<p>This page is shown to those who may ask here. <a href="/?next={next}">Sign in</a>, and it opens.</p>
</main></body></html>
"""


class Door(Layer):
    """Puts the client's name into the request's state, or answers with the reason why not."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        super().__init__(app)
        self._access = access

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        try:
            check_head(scope)
            host = check_host(request, self._access)
            check_origin(request, host, self._access)
            request.state.client = await client_or_none(request, self._access)
        except CallerError as error:
            await refusal(request, error)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def check_head(scope: Scope) -> None:
    """Raises `HeadTooLarge`. The server's own limit counts only what comes in pieces."""
    size = len(scope["raw_path"]) + len(scope["query_string"])
    size += sum(len(name) + len(value) for name, value in scope["headers"])
    if size > MAX_HEAD_BYTES:
        raise HeadTooLarge(f"The address and the headers are larger than {MAX_HEAD_BYTES} bytes.")


def check_host(request: Request, access: Access) -> str:
    """Raises `HostRefused` for a name that is not ours."""
    hosts = request.headers.getlist("host")
    if len(hosts) != 1 or not access.answers_to(hosts[0]):
        raise HostRefused("This server does not answer under that name. ALLOWED_HOSTS lists its names.")
    return hosts[0]


def check_origin(request: Request, host: str, access: Access) -> None:
    """Raises `OriginRefused` where a page of another site asks for a change. Programs send no `Origin`."""
    if request.method in SAFE_METHODS:
        return
    origins = request.headers.getlist("origin")
    foreign = any(not access.is_own(origin, host) for origin in origins)
    if foreign or (not origins and request.headers.get("sec-fetch-site", "") in CROSS_SITE):
        raise OriginRefused("A page of another site may not ask here.")


async def client_or_none(request: Request, access: Access) -> str | None:
    """Raises `Unauthorized` where the path is not open to everybody."""
    try:
        return await identify(request, access)
    except Unauthorized:
        if is_open(request.scope["path"]):
            return None
        raise


def is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_FOLDERS)


def refusal(request: Request, error: CallerError) -> Response:
    """JSON for programs; a page with a way in for a person who followed a link."""
    if not isinstance(error, Unauthorized):
        return problem_of(error)
    challenge = {"WWW-Authenticate": "Bearer"}
    if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
        wanted = quote(f"{request.scope['path']}?{request.scope['query_string'].decode('latin-1')}", safe="")
        return HTMLResponse(SIGN_IN_PAGE.format(next=escape(wanted)), error.status, challenge)
    return problem_of(error, challenge)
