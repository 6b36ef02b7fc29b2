"""Who asks. Until keys arrive, the client is the peer's address."""

from starlette.requests import Request


def client_of(request: Request) -> str:
    """The name that threads and runs are keyed by."""
    return request.client.host if request.client else "unknown"
