"""Counting a request against its client's limit, before anything of it is read."""

from dataclasses import replace

from starlette.requests import Request

from service.api.deps import api_state
from service.api.headers import seconds_left
from service.errors import RateLimited
from service.ports import Allowance


async def uncount(request: Request, client: str) -> None:
    """Give back what `count` took of this request."""
    await api_state(request).limiter.give_back(client)
    taken: Allowance = request.state.allowance
    request.state.allowance = replace(taken, remaining=taken.remaining + 1)


async def count(request: Request, client: str, doing: str) -> None:
    """Count one request of the client: whatever comes of it, also a body that is not valid. Raises `RateLimited`.

    `doing` says what is counted, as in "You may ask". What is left goes into the answer's headers.
    """
    allowance = await api_state(request).limiter.take(client)
    request.state.allowance = allowance
    if not allowance.allowed:
        times = "once" if allowance.limit == 1 else f"{allowance.limit} times"
        raise RateLimited(f"You may {doing} {times} a minute. Try again in {seconds_left(allowance)} s.")
