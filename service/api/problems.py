"""Errors on the wire: `{"error": {"code", "message", "retryable"}}`, always, and never an exception's text."""

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse

from service.api.methods import allow
from service.errors import GatehouseError

logger = logging.getLogger(__name__)


class Problem(BaseModel):
    code: str
    message: str
    retryable: bool


class ErrorBody(BaseModel):
    error: Problem


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody, "description": meaning}
    for status, meaning in {
        400: "Asked under a name that is not this server's.",
        401: "No key, or one that is not known.",
        403: "Asked by a page of another site, or from an address that may not.",
        404: "Unknown, or another client's: they look alike.",
        408: "The body did not arrive in time.",
        409: "The thread is still answering.",
        413: "The body is too large.",
        415: "The body is not JSON.",
        422: "The request is not valid; the message names the field.",
        429: "The client asks too often, or has too many answers under way.",
        503: "A dependency is away, or the service is full.",
    }.items()
}


def problem(status: int, code: str, message: str, retryable: bool = False) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "message": message, "retryable": retryable}}, status)


def problem_of(error: GatehouseError, headers: Mapping[str, str] | None = None) -> JSONResponse:
    answer = problem(error.status, error.code, str(error), error.retryable)
    answer.headers.update(headers or {})
    return answer


def add_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(GatehouseError)
    async def ours(request: Request, error: GatehouseError) -> JSONResponse:  # noqa: ARG001
        if error.status >= 500:
            logger.warning("request failed code=%s message=%s", error.code, error)
        answer = problem_of(error)
        if error.status == 408:
            # A body that trickles on would hold the connection for as long as it likes.
            answer.headers["Connection"] = "close"
        return answer

    @app.exception_handler(RequestValidationError)
    async def parameters(request: Request, error: RequestValidationError) -> JSONResponse:  # noqa: ARG001
        where = sorted({str(item["loc"][-1]) for item in error.errors()})
        return problem(422, "invalid_request", f"Not valid: {', '.join(where)}.")

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> JSONResponse:  # noqa: ARG001
        """The reader left before the body was whole: no one reads this, and it is no fault of ours to log."""
        return problem(400, "client_gone", "The connection was closed before the body had arrived.")

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
        answer = problem(error.status_code, code, str(error.detail))
        answer.headers.update(error.headers or {})
        if error.status_code == 405:
            answer.headers["Allow"] = allow(request, answer.headers.get("Allow", ""))
        return answer

    @app.exception_handler(Exception)
    async def bug(request: Request, error: Exception) -> JSONResponse:  # noqa: ARG001
        logger.error("request broke", exc_info=error)
        return problem(500, "internal", "Something went wrong on our side. The fault was logged.")
