"""Bodies posted to a server that collects: what went wrong is said for the operator, and nothing is waited for long."""

import gzip
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

from service.observe.worker import SendFailed, TooLarge

WORTH_ANOTHER_TRY = frozenset({408, 429, 500, 502, 503, 504})
"""429, 502, 503 and 504 by OTLP/HTTP ("Retryable response codes"); the others pass as well, and no span is doubled."""
TOO_LARGE = 413
UNREADABLE = frozenset({400, 422})
LONGEST_WAIT_S = 60.0
"""A server that asks for more patience is asked after a minute all the same: what waits meanwhile is bounded."""
KEPT_BYTES = 65_536
"""Of a reply. An answer that counts what it refused is far shorter."""

KEYS = "are LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY those of a project there?"
HOST = "is LANGFUSE_HOST the address of a Langfuse server, and its path, if any, the one it is served under?"
SIZE = "too large for the server; raise the limit on request bodies there, or of the proxy before it"
CONTENT = "the server cannot use what was sent; its own log says why"
HINTS = {401: KEYS, 403: KEYS, 404: HOST, 405: HOST, TOO_LARGE: SIZE} | dict.fromkeys(UNREADABLE, CONTENT)


@dataclass(frozen=True, slots=True)
class Reply:
    """A success. `body` is its beginning, as far as it came in time."""

    status: int
    content_type: str
    body: bytes


class Delivery:
    """Posts to one server. `headers` go with every request."""

    def __init__(self, host: str, user: str, password: str, headers: dict[str, str]) -> None:
        self._http = httpx.Client(base_url=host.rstrip("/"), auth=(user, password), headers=headers)

    def post(self, path: str, body: bytes, content_type: str, timeout_s: float) -> Reply:
        """Raises `SendFailed` for anything but a success. `timeout_s` holds for each wait."""
        headers = {"Content-Type": content_type, "Content-Encoding": "gzip"}
        packed = gzip.compress(body, compresslevel=5)
        until = time.monotonic() + timeout_s
        try:
            with self._http.stream("POST", path, content=packed, headers=headers, timeout=timeout_s) as response:
                check(response)
                return read(response, until)
        except httpx.TimeoutException:
            raise SendFailed(f"no answer within {timeout_s:.1f} s", again=True) from None
        except httpx.HTTPError as error:
            why = f"cannot be reached ({type(error).__name__}): is the server up, and LANGFUSE_HOST right?"
            raise SendFailed(why, again=True) from None

    def close(self) -> None:
        self._http.close()


def read(response: httpx.Response, until: float) -> Reply:
    """Read to the end, for the connection to be used again, or to `until` (s of the monotonic clock)."""
    kept = b""
    for piece in response.iter_bytes():
        kept += piece[: KEPT_BYTES - len(kept)]
        if time.monotonic() > until:
            break
    return Reply(response.status_code, response.headers.get("content-type", ""), kept)


def check(response: httpx.Response) -> None:
    """Raises `SendFailed` that says what to look at."""
    status = response.status_code
    if response.is_redirect:
        raise SendFailed(f"HTTP {status}: it leads elsewhere; {HOST}", again=False)
    if not response.is_success:
        raise refusal(status, response.headers.get("retry-after", ""))
    if response.headers.get("content-type", "").startswith("text/html"):
        raise SendFailed(f"answered with a web page; {HOST}", again=False)


def refusal(status: int, retry_after: str) -> SendFailed:
    why = f"HTTP {status}: {HINTS[status]}" if status in HINTS else f"HTTP {status}"
    if status == TOO_LARGE:
        return TooLarge(why)
    again = status in WORTH_ANOTHER_TRY
    return SendFailed(why, again=again, after_s=seconds_of(retry_after), content=status in UNREADABLE)


def seconds_of(retry_after: str) -> float:
    """How long the header asks to wait (RFC 9110, 10.2.3: seconds, or a date); 0 for none, and for nonsense."""
    try:
        asked = float(retry_after) if retry_after.strip().isdecimal() else until_date(retry_after)
    except (ValueError, OverflowError):
        return 0.0
    return min(max(asked, 0.0), LONGEST_WAIT_S)


def until_date(date: str) -> float:
    """Raises `ValueError`."""
    moment = parsedate_to_datetime(date)
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds()
