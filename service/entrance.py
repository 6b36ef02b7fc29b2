"""The part of the composition root that decides who comes in: keys, sessions, proxies, names and the rate limit."""

from contextlib import AsyncExitStack
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from service.api.access import Access
from service.errors import OperatorError
from service.keys import Keys, parse_keys
from service.ports import RateLimiter
from service.ratelimit.fallback import WithFallback
from service.ratelimit.memory import MemoryLimiter
from service.ratelimit.redis import RedisAway, RedisWindow
from service.sessions import Sessions
from service.setting_values import words_of
from service.settings import Settings

HOW_TO_OPEN = (
    "No key is set, and this server can be reached from other machines ({why}): anybody could ask.\n"
    "Make a key for each client with `gatehouse key NAME` and set API_KEYS to the line it prints,\n"
    "or set ALLOW_ANONYMOUS=true to let everybody in who can reach it."
)

BAD_REDIS_URL = (
    "REDIS_URL cannot be read. Write it as redis://:PASSWORD@HOST:PORT/0,"
    " and percent-encode what is no letter or digit in the password (/ is %2F, # is %23, @ is %40)."
)


def check_identity(settings: Settings) -> None:
    """Raises `OperatorError` where a server that others can reach would let everybody in without anyone saying so."""
    if parse_keys(settings.API_KEYS) or settings.ALLOW_ANONYMOUS:
        return
    if not is_loopback(settings.HOST):
        raise OperatorError(HOW_TO_OPEN.format(why=f"HOST={settings.HOST}"))
    if settings.TRUSTED_PROXIES:
        raise OperatorError(HOW_TO_OPEN.format(why="TRUSTED_PROXIES is set"))
    if settings.PUBLIC_URL and not is_loopback(urlsplit(settings.PUBLIC_URL).hostname or ""):
        raise OperatorError(HOW_TO_OPEN.format(why=f"PUBLIC_URL={settings.PUBLIC_URL}"))
    for name in words_of(settings.ALLOWED_HOSTS):
        if not is_loopback(name.lower()):
            raise OperatorError(HOW_TO_OPEN.format(why=f"ALLOWED_HOSTS names {name}"))


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def access_of(settings: Settings) -> Access:
    keys = parse_keys(settings.API_KEYS)
    return Access(
        sessions=Sessions(settings.DATA_DIR / "sessions", settings.SESSION_HOURS),
        keys=Keys(keys),
        anonymous=settings.ALLOW_ANONYMOUS or not keys,
        hosts=tuple(word.lower() for word in (*words_of(settings.ALLOWED_HOSTS), settings.HOST)),
        proxies=tuple(ip_network(word) for word in words_of(settings.TRUSTED_PROXIES)),
        public_url=settings.PUBLIC_URL,
        scrapers=tuple(ip_network(word) for word in words_of(settings.METRICS_NETWORKS)),
    )


async def open_limiter(settings: Settings, stack: AsyncExitStack) -> RateLimiter:
    """The limit of this process, or the one in Redis with this process's own while Redis is away."""
    own = MemoryLimiter(settings.RATE_LIMIT_PER_MINUTE)
    url = settings.REDIS_URL.get_secret_value()
    if not url:
        return own
    try:
        shared = RedisWindow(url, settings.RATE_LIMIT_PER_MINUTE, settings.REDIS_TIMEOUT_S)
    except ValueError:
        # The error's own text quotes the URL, and with it the password.
        raise OperatorError(BAD_REDIS_URL) from None
    stack.push_async_callback(shared.aclose)
    limiter = WithFallback(shared, own, RedisAway)
    stack.push_async_callback(limiter.aclose)
    await limiter.open()
    return limiter
