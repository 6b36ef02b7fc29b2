"""The application: routes over one typed bundle. Nothing is opened here; `wiring` does that."""

from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.responses import FileResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from service.api import chat, export, ops, runs, session, sources, threads
from service.api.auth import COOKIE
from service.api.deps import ApiState
from service.api.door import Door
from service.api.headers import PageHeaders
from service.api.methods import HeadAsGet
from service.api.problems import add_error_handlers
from service.api.requests import RequestLog

UI = Path(__file__).parent.parent / "ui"
VERSION = "0.1.0"
SECURITY = {
    "key": {"type": "http", "scheme": "bearer"},
    "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
}


class Application(FastAPI):
    """FastAPI with our headers and ids outside of everything, the answer to an unforeseen fault included."""

    def build_middleware_stack(self) -> ASGIApp:
        return RequestLog(PageHeaders(HeadAsGet(super().build_middleware_stack())), self.state.api.access)


def create_app(api: ApiState) -> FastAPI:
    app = Application(title="Gatehouse", version=VERSION, docs_url=None, redoc_url=None)
    app.state.api = api
    add_error_handlers(app)
    for module in (chat, threads, export, runs, sources, session, ops):
        app.include_router(module.router)

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(UI / "index.html")

    app.mount("/ui", StaticFiles(directory=UI), name="ui")
    if api.site is not None:
        app.mount("/site", StaticFiles(directory=api.site, html=True), name="site")
    app.add_middleware(Door, access=api.access)
    publish_events(app)
    return app


def publish_events(app: FastAPI) -> None:
    """Put the event types into the OpenAPI schema: FastAPI finds only what a route returns as JSON."""
    build = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = build()
            schemas = schema.setdefault("components", {}).setdefault("schemas", {})
            for name, definition in chat.event_schemas().items():
                schemas.setdefault(name, definition)
            schema["components"]["securitySchemes"] = SECURITY
            schema["security"] = [{name: []} for name in SECURITY]
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend the schema
