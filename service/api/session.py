"""Signing in and out on the page: a plain link sends no header, so the page's key becomes a cookie."""

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from service.api.auth import UNKNOWN_KEY, address_of, cookie_name, is_secure, session_of
from service.api.body import read_json
from service.api.deps import api_state
from service.api.limits import count, uncount
from service.api.problems import ERRORS
from service.errors import Unauthorized
from service.keys import MAX_KEY

router = APIRouter(prefix="/session", responses={401: ERRORS[401]})


class SignIn(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    key: str = Field(min_length=1, max_length=MAX_KEY)


class Who(BaseModel):
    """`client` is the name that the server knows the caller by, or null where it needs a key first."""

    client: str | None
    signed_in: bool


@router.get("")
async def who(request: Request) -> Who:
    """Who am I here?"""
    client: str | None = request.state.client
    return Who(client=client, signed_in=await session_of(request, api_state(request).access) is not None)


@router.post("", responses=ERRORS)
async def sign_in(request: Request, response: Response) -> Who:
    """Exchange a key for a cookie that scripts cannot read. Attempts that fail are limited by address."""
    api = api_state(request)
    # Counted first: guesses that arrive together must not all be looked at before any of them is counted.
    attempts = f"sign-in {address_of(request, api.access)}"
    await count(request, attempts, "try to sign in")
    asked = await read_json(request, SignIn, api.max_body_bytes, api.body_timeout_s)
    key = api.access.keys.find(asked.key.strip())
    if key is None:
        raise Unauthorized(UNKNOWN_KEY)
    await uncount(request, attempts)
    set_cookie(request, response, await api.access.sessions.begin(key), api.access.sessions.lasts_s)
    return Who(client=key.name, signed_in=True)


@router.delete("")
async def sign_out(request: Request, response: Response) -> Who:
    """End the session: the cookie is worthless from now on, whoever has a copy."""
    access = api_state(request).access
    await access.sessions.end(request.cookies.get(cookie_name(request, access), ""))
    set_cookie(request, response, "", 0)
    return Who(client=None, signed_in=False)


def set_cookie(request: Request, response: Response, token: str, lasts_s: int) -> None:
    """`SameSite=Lax`: a link in a memo opens a source; a form of another site changes nothing."""
    access = api_state(request).access
    response.set_cookie(
        cookie_name(request, access),
        token,
        max_age=lasts_s,
        path="/",
        secure=is_secure(request, access),
        httponly=True,
        samesite="lax",
    )
