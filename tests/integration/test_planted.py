"""An account number, a key and an e-mail address, planted wherever text comes in, are found nowhere that it goes out.

Out of the service, that is, to whoever operates it: log, metrics, Redis. The audit log keeps what was asked.
"""

import io
import logging
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path

import pytest

from service.api.access import Access
from service.keys import Keys, digest_of, parse_keys
from service.logs import log_to
from service.model import Grade
from service.observe.metrics import Metrics
from service.ports import WebFindings
from service.ratelimit.fallback import WithFallback
from service.ratelimit.memory import MemoryLimiter
from service.ratelimit.redis import RedisAway, RedisWindow
from service.sessions import Sessions
from tests.fakes import ERROR, FixedKnowledge, ScriptedModel, ScriptedWeb, passage, services
from tests.ratelimit.redis_server import RedisServer, needs_redis
from tests.running import House
from tests.served import Served, serving

IBAN, KEY, MAIL = "GB82 WEST 1234 5698 7654 32", "sk-ant-api03-PLANTED-0123456789", "jane.planted@client.test"
TRACES = ["WEST 1234", "WEST12345698", "GB82", "PLANTED", "planted", "jane.", "client.test"]
SAID = f"My account {IBAN}, my key {KEY}, write to {MAIL}"
CLIENTS_KEY = "PLANTED-key-of-the-client"
BODY = {"question": f"{SAID}: how long must record 1 be kept?", "thread_id": "t"}

pytestmark = pytest.mark.slow


@pytest.fixture(params=["text", "json"])
def log(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    stream = io.StringIO()
    log_to(stream, logging.INFO, request.param)
    yield stream
    logging.captureWarnings(False)
    root.handlers[:], root.level = handlers, level


def everything_in(server: RedisServer) -> str:
    """Every key with its values, and every command with its words."""
    with server.client() as client:
        keys = [str(key) for key in client.keys("*")]
        assert keys, "nothing was written"
        assert {client.type(key) for key in keys} == {"list"}
        values = [client.lrange(key, 0, -1) for key in keys]
    commands = str(server.command("SLOWLOG", "GET", -1))
    assert "PEXPIRE" in commands
    return f"{keys} {values} {commands}"


def world(folder: Path, model: ScriptedModel, metrics: Metrics) -> House:
    """Sources, a page of the web and a judge's words that hold what was planted."""
    knowledge = FixedKnowledge([replace(passage(n, f"{SAID} is rule {n}."), title=SAID) for n in range(1, 4)])
    web = ScriptedWeb(WebFindings("", "unavailable", warning=SAID))
    return House(services(folder, knowledge=knowledge, web=web), model, observers=[metrics])


async def go_wrong(served: Served) -> None:
    """Every way in that a client has, the wrong ones included."""
    client, headers = served.client, {"Authorization": f"Bearer {CLIENTS_KEY}"}
    planted = {"User-Agent": SAID, "Referer": f"https://{MAIL}/?q={IBAN}", "Cookie": f"gatehouse={KEY}"}
    planted |= {"X-Request-ID": KEY, "X-Forwarded-For": f"{KEY}, {MAIL}", "X-Forwarded-Proto": KEY}
    await client.get(f"/threads/{KEY}?skill={MAIL}", headers={**headers, **planted})
    await client.get(f"/sources/{KEY}?q={SAID}", headers={**headers, **planted})
    await client.get(f"/{KEY}/{MAIL}", headers={**headers, **planted})
    await client.get("/threads", headers={"Authorization": f"Bearer {KEY}"})
    await client.post("/session", json={"key": KEY})
    await client.post("/chat", json={"question": SAID, "skill": KEY[:60]}, headers=headers)
    await client.post("/chat", json={"question": SAID, MAIL: IBAN}, headers=headers)
    await client.post("/chat", content=SAID.encode(), headers=headers)
    await client.request(KEY, "/chat", headers=headers)


def broken_by(fault: Exception) -> ScriptedModel:
    return ScriptedModel(draft=lambda _, __: fault)


@needs_redis
async def test_what_was_planted_is_in_no_log_no_metric_and_not_in_redis(
    tmp_path: Path, redis_server: RedisServer, log: io.StringIO
) -> None:
    """A bug whose exception quotes the question is among the runs: its traceback is logged, without it."""
    metrics = Metrics()
    redis_server.command("CONFIG", "SET", "slowlog-log-slower-than", 0, "slowlog-max-len", 10_000)
    window = RedisWindow(redis_server.url, 1000, 0.5)
    limiter = WithFallback(window, MemoryLimiter(1000), RedisAway)
    keys = Keys(parse_keys(f"alice:{digest_of(CLIENTS_KEY)}"))
    access = Access(Sessions(tmp_path / "sessions", 1), keys, proxies=(ip_network("127.0.0.1"),))
    statuses = []
    models = [
        ScriptedModel(draft=lambda _, sources: f"{SAID} [[{sources[0].n}]]."),
        ScriptedModel(grading=lambda _, __: Grade("error", SAID)),
        ScriptedModel(grounded=lambda _: ERROR, draft=lambda _, __: f"“{SAID}” [[9]]"),
        broken_by(ValueError(f"cannot parse {SAID!r}")),
        broken_by(RuntimeError(f"first line\n{SAID}")),
    ]
    for number, model in enumerate(models):
        home = world(tmp_path / str(number), model, metrics)
        async with serving(home, access=access, limiter=limiter, metrics=metrics) as served:
            headers = {"Authorization": f"Bearer {CLIENTS_KEY}", "Accept": "application/json"}
            asked = await served.client.post("/chat", json={**BODY, "web_search": True}, headers=headers)
            statuses.append(asked.status_code)
            await go_wrong(served)
            shown = (await served.client.get("/metrics")).text
    kept = everything_in(redis_server)
    await limiter.aclose()
    await window.aclose()
    assert statuses == [200, 502, 200, 500, 500]
    assert "Traceback" in log.getvalue()
    assert "gatehouse_runs_total" in shown
    for name, text in {"log": log.getvalue(), "metrics": shown, "redis": kept}.items():
        assert [trace for trace in TRACES if trace in text] == [], name
