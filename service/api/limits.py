"""Counting a request against its client's limit, before anything of it is read."""

from dataclasses import replace

from starlette.requests import Request

from service.api.deps import api_state
from service.errors import RateLimited
from service.ports import Allowance


async def uncount(request: Request, client: str) -> None:
    """Give back what `count` took of this request."""
    await api_state(request).limiter.give_back(client)
    taken: Allowance = request.state.allowance
    request.state.allowance = replace(taken, remaining=taken.remaining + 1)


async def count(request: Request, client: str) -> None:
    """Count one request of the client: whatever comes of it, also a body that is not valid. Raises `RateLimited`.

    What is left goes into the answer's headers.
    """
    allowance = await api_state(request).limiter.take(client)
    request.state.allowance = allowance
    if not allowance.allowed:
        raise RateLimited(f"You may ask {allowance.limit} times a minute. Please wait a moment.")
