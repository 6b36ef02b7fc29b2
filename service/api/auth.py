"""Who asks: the name of the key that a request brings, else the address it came from."""

from starlette.requests import HTTPConnection

from service.api.access import Access
from service.api.addresses import client_address, is_from_proxy, is_trusted, origin_of, peer_of
from service.errors import Unauthorized

COOKIE = "gatehouse"
FORWARDED_FOR = "x-forwarded-for"
NOT_READ = ("forwarded", "x-real-ip", "via")
"""Other headers of proxies: they show that a request was handed on, and anybody's word of whose it is."""
SIGN_IN = "Send a key as `Authorization: Bearer ...`, or sign in on the page."
UNKNOWN_KEY = "This key is not known here. Ask whoever runs this server for one."


async def identify(request: HTTPConnection, access: Access) -> str:
    """Name the client, by its key first. Raises `Unauthorized`; a wrong key is never passed over for an address."""
    bearer = bearer_of(request)
    if bearer is not None:
        found = access.keys.find(bearer)
        if found is None:
            raise Unauthorized(UNKNOWN_KEY)
        return found.name
    signed_in = await session_of(request, access)
    if signed_in is not None:
        return signed_in
    if access.anonymous:
        return address_of(request, access)
    raise Unauthorized(SIGN_IN)


def bearer_of(request: HTTPConnection) -> str | None:
    """The key in the `Authorization` header (RFC 6750), or None. Other schemes are a proxy's own affair."""
    for header in request.headers.getlist("authorization"):
        scheme, _, key = header.partition(" ")
        if scheme.lower() == "bearer":
            return key.strip()
    return None


async def session_of(request: HTTPConnection, access: Access) -> str | None:
    """The name of who is signed in, or None: also where the key was taken out of the settings since."""
    token = request.cookies.get(cookie_name(request, access), "")
    key = await access.sessions.key_of(token) if token else None
    return key.name if key is not None and access.keys.holds(key) else None


def address_of(request: HTTPConnection, access: Access) -> str:
    return client_address(peer_of(request), request.headers.getlist(FORWARDED_FOR), access.proxies)


def may_scrape(request: HTTPConnection, access: Access) -> bool:
    """May this address read the metrics?

    What a proxy has handed on is nobody's own request, unless it is one of ours and says whose in the header we read.
    """
    forwarded = request.headers.getlist(FORWARDED_FOR)
    if forwarded and not is_from_proxy(request, access.proxies):
        return False
    if not forwarded and any(name in request.headers for name in NOT_READ):
        return False
    origin = origin_of(peer_of(request), forwarded, access.proxies)
    return origin is not None and (origin.is_loopback or is_trusted(origin, access.scrapers))


def is_secure(request: HTTPConnection, access: Access) -> bool:
    """Does the reader reach us by https? Then the cookie may never travel in the clear."""
    if access.public_url.startswith("https://") or request.scope["scheme"] == "https":
        return True
    said = request.headers.get("x-forwarded-proto", "").strip().lower() == "https"
    return said and is_from_proxy(request, access.proxies)


def cookie_name(request: HTTPConnection, access: Access) -> str:
    """`__Host-` binds the cookie to this very host and to https (RFC 6265bis, section 4.1.3)."""
    return f"__Host-{COOKIE}" if is_secure(request, access) else COOKIE


def client_of(request: HTTPConnection) -> str:
    """The name that threads, runs and limits are keyed by. Raises `Unauthorized` where the client is not known."""
    client: str | None = getattr(request.state, "client", None)
    if client is None:
        raise Unauthorized(SIGN_IN)
    return client
