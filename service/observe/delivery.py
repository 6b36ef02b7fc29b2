"""Bodies posted to a server that collects: what went wrong is said for the operator, and nothing is waited for long."""

import gzip
import logging
import time

import httpx

from service.observe.worker import SendFailed

logger = logging.getLogger(__name__)

WORTH_ANOTHER_TRY = frozenset({408, 429, 500, 502, 503, 504})
KEYS = "are LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY those of a project there?"
HOST = "is LANGFUSE_HOST the address of a Langfuse server?"
HINTS = {401: KEYS, 403: KEYS, 404: HOST, 405: HOST}


class Delivery:
    """Posts to one server. `headers` go with every request."""

    def __init__(self, host: str, user: str, password: str, headers: dict[str, str]) -> None:
        self._http = httpx.Client(base_url=host.rstrip("/"), auth=(user, password), headers=headers)

    def post(self, path: str, body: bytes, content_type: str, timeout_s: float) -> None:
        """Raises `SendFailed` for anything but a plain success. `timeout_s` holds for each wait."""
        headers = {"Content-Type": content_type, "Content-Encoding": "gzip"}
        packed = gzip.compress(body, compresslevel=5)
        until = time.monotonic() + timeout_s
        try:
            with self._http.stream("POST", path, content=packed, headers=headers, timeout=timeout_s) as response:
                check(response)
                for _ in response.iter_raw():  # read to its end, the connection can be used again
                    if time.monotonic() > until:
                        break
        except httpx.TimeoutException:
            raise SendFailed(f"no answer within {timeout_s:.1f} s", again=True) from None
        except httpx.HTTPError as error:
            raise SendFailed(f"cannot be reached ({type(error).__name__})", again=True) from None

    def close(self) -> None:
        self._http.close()


def check(response: httpx.Response) -> None:
    """Raises `SendFailed` that says what to look at."""
    status = response.status_code
    if response.is_redirect:
        raise SendFailed(f"HTTP {status}: it leads elsewhere; {HOST}", again=False)
    if not response.is_success:
        hint = f": {HINTS[status]}" if status in HINTS else ""
        raise SendFailed(f"HTTP {status}{hint}", again=status in WORTH_ANOTHER_TRY)
    if response.headers.get("content-type", "").startswith("text/html"):
        raise SendFailed(f"answered with a web page; {HOST}", again=False)
    if status == 207:
        logger.warning("traces: Langfuse refused some of the scores")
