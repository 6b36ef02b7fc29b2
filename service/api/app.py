"""The application: routes over one typed bundle. Nothing is opened here; `wiring` does that."""

from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.responses import FileResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api import chat, ops, runs, sources, threads
from service.api.deps import ApiState
from service.api.problems import add_error_handlers

UI = Path(__file__).parent.parent / "ui"
VERSION = "0.1.0"

PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def create_app(api: ApiState) -> FastAPI:
    app = FastAPI(title="Gatehouse", version=VERSION, docs_url=None, redoc_url=None)
    app.state.api = api
    add_error_handlers(app)
    for module in (chat, threads, runs, sources, ops):
        app.include_router(module.router)

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(UI / "index.html")

    app.mount("/ui", StaticFiles(directory=UI), name="ui")
    if api.site is not None:
        app.mount("/site", StaticFiles(directory=api.site, html=True), name="site")
    app.add_middleware(PageHeaders)
    publish_events(app)
    return app


class PageHeaders:
    """Adds the security headers to every answer of ours; the demo's `/site/` stands for pages that are not ours."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith("/site/"):
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(name.lower().encode(), value.encode()) for name, value in PAGE_HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        await self._app(scope, receive, send_with_headers)


def publish_events(app: FastAPI) -> None:
    """Put the event types into the OpenAPI schema: FastAPI finds only what a route returns as JSON."""
    build = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = build()
            schemas = schema.setdefault("components", {}).setdefault("schemas", {})
            for name, definition in chat.event_schemas().items():
                schemas.setdefault(name, definition)
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend the schema
