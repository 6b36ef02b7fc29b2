"""What can go wrong between us and the Messages API: whether it may mend itself, and what to tell about it.

Read from anthropic 2.14: an `error` event inside a 200 stream is an `APIStatusError` with that status.
"""

import anthropic
import httpx2

from service.llm.reply import BrokenOff

FAULTS = (anthropic.AnthropicError, httpx2.HTTPError, BrokenOff, ValueError)
"""What can go wrong on the wire; a `ValueError` is a body that is no JSON or no UTF-8."""

_TRANSIENT_STATUS = frozenset({408, 409, 429})
_TRANSIENT_TYPES = frozenset({"overloaded_error", "api_error", "rate_limit_error", "timeout_error"})


def is_transient(fault: Exception) -> bool:
    """May the same call succeed in a moment? Not after a silence: it has used up the reader's patience already."""
    if isinstance(fault, anthropic.APITimeoutError | httpx2.TimeoutException):
        return False
    if isinstance(fault, anthropic.APIStatusError):
        if fault.status_code < 400:  # an error event inside a stream that began well
            return fault.type in _TRANSIENT_TYPES
        return fault.status_code in _TRANSIENT_STATUS or fault.status_code >= 500
    return isinstance(fault, anthropic.APIConnectionError | httpx2.TransportError | BrokenOff)


def retry_after_s(fault: Exception) -> float | None:
    """The seconds of a `retry-after` header; None where there is none, or a date, which this API does not send."""
    header = fault.response.headers.get("retry-after", "") if isinstance(fault, anthropic.APIStatusError) else ""
    return float(header) if header.isascii() and header.isdigit() else None


def advice(fault: Exception, setting: str) -> str:
    """A message without a word of the API's own, which names the setting to check where one is to blame."""
    match fault.status_code if isinstance(fault, anthropic.APIStatusError) else 0:
        case 401 | 403:
            return "The language model's server refused the key. Check ANTHROPIC_API_KEY."
        case 404:
            return f"The language model's server does not know the model. Check {setting} and ANTHROPIC_BASE_URL."
        case 400 | 402 | 413 | 422:
            return "The language model's server refused the request."
        case _:
            return "The language model is not available at the moment."
