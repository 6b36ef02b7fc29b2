"""Reading a JSON body with limits, before anything trusts it."""

import asyncio
import json
from collections import Counter
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from service.errors import BodyTimeout, BodyTooLarge, InvalidRequest, UnsupportedMediaType

BODY_TIMEOUT_S = 10.0
Body = TypeVar("Body", bound=BaseModel)


async def read_json(request: Request, model: type[Body], max_bytes: int, timeout_s: float = BODY_TIMEOUT_S) -> Body:
    """Read and validate a JSON body, strictly.

    Raises `UnsupportedMediaType`, `BodyTooLarge`, `BodyTimeout` or `InvalidRequest`.
    """
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/json":
        raise UnsupportedMediaType("Send the request as JSON, with Content-Type: application/json.")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedMediaType("Send the body without a Content-Encoding.")
    return parse(await read_bytes(request, max_bytes, timeout_s), model)


def parse(raw: bytes | str, model: type[Body]) -> Body:
    """Validate JSON strictly. Raises `InvalidRequest` that names each bad field."""
    try:
        parsed = model.model_validate_json(raw, strict=True)
    except ValidationError as error:
        raise InvalidRequest(explain(error)) from None
    refuse_repeated_keys(raw)
    return parsed


def refuse_repeated_keys(raw: bytes | str) -> None:
    """Of two values for one key some readers take the first and some the last (RFC 8259, section 4): we take neither.

    For JSON that was validated, so that its size, depth and names are known. Raises `InvalidRequest`.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        repeated = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
        if repeated:
            raise InvalidRequest(f"{repeated[0][:80]}: stands there more than once; send each key once")
        return dict(pairs)

    json.loads(raw, object_pairs_hook=once)


async def read_bytes(request: Request, max_bytes: int, timeout_s: float) -> bytes:
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(timeout_s):
            async for chunk in request.stream():
                size += len(chunk)
                if size > max_bytes:
                    raise BodyTooLarge(f"The body is larger than {max_bytes} bytes.")
                chunks.append(chunk)
    except TimeoutError:
        raise BodyTimeout(f"The body did not arrive within {timeout_s:g} s.") from None
    return b"".join(chunks)


def explain(error: ValidationError) -> str:
    """Name each bad field and what is wrong with it; never the value, which may be anything."""
    parts = []
    for item in error.errors(include_url=False, include_input=False, include_context=False)[:5]:
        where = ".".join(str(part) for part in item["loc"])[:80]
        parts.append(f"{where}: {item['msg']}" if where else item["msg"])
    return "; ".join(parts).encode("utf-8", "replace").decode()
