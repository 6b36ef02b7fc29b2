"""A house that is asked with keys: two clients, and the ways in which a request can say who asks."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from service.api.access import Access
from service.keys import ClientKey, Keys, digest_of, make_key
from service.ports import AuditSink, RateLimiter, WebSearch
from service.sessions import Sessions
from service.skills.registry import Skills
from tests.fakes import ScriptedModel, services
from tests.running import House
from tests.served import Served, serving

ALICE, BOB = make_key(), make_key()
KEYS = (ClientKey("alice", digest_of(ALICE)), ClientKey("bob", digest_of(BOB)))
HOUR = 3600.0


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def access(folder: Path, *keys: ClientKey, proxies: str = "", **changes: Any) -> Access:
    networks = (ip_network(proxies),) if proxies else ()
    return Access(Sessions(folder / "sessions", hours=1), Keys(keys), proxies=networks, **changes)


@asynccontextmanager
async def guarded(
    folder: Path,
    model: ScriptedModel | Callable[[], Any] | None = None,
    *,
    rules: Access | None = None,
    limiter: RateLimiter | None = None,
    web: WebSearch | None = None,
    skills: Skills | None = None,
    audit: AuditSink | None = None,
) -> AsyncIterator[Served]:
    """Alice and Bob have keys; nobody else is let in, unless `rules` say otherwise."""
    home = House(services(folder, web=web), model or ScriptedModel(), audit=audit)
    rules = rules or access(folder, *KEYS)
    async with serving(home, access=rules, limiter=limiter, skills=skills) as served:
        yield served
