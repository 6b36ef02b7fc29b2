"""GET /metrics: who may read it, and what it holds while the service works."""

from ipaddress import ip_network
from pathlib import Path

import httpx
import pytest

from service.api.access import Access
from service.errors import OperatorError
from service.keys import Keys, digest_of, make_key, parse_keys
from service.measuring import own_port
from service.observe.metrics import Metrics
from service.sessions import Sessions
from service.settings import Settings
from tests.fakes import ScriptedModel, services
from tests.observe.scraped import samples, value
from tests.postgres_server import free_port
from tests.running import House
from tests.served import NOWHERE, serving


def closed(*proxies: str, scrapers: str = "") -> Access:
    """A server that lets nobody in without a key."""
    keys = Keys(parse_keys(f"alice:{digest_of(make_key())}"))
    return Access(
        Sessions(NOWHERE, hours=1),
        keys=keys,
        proxies=tuple(map(ip_network, proxies)),
        scrapers=(ip_network(scrapers),) if scrapers else (),
    )


async def test_this_machine_reads_the_metrics_without_a_key(tmp_path: Path) -> None:
    async with serving(House(services(tmp_path), ScriptedModel()), access=closed()) as served:
        answer = await served.client.get("/metrics")
        asked = await served.client.get("/skills")
    assert (answer.status_code, asked.status_code) == (200, 401)
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert value(samples(answer.text), "gatehouse_runs_under_way") == 0


@pytest.mark.parametrize(
    ("proxies", "scrapers", "forwarded", "status"),
    [
        (["127.0.0.1"], "", "203.0.113.9", 403),
        (["127.0.0.1"], "203.0.113.0/24", "203.0.113.9", 200),
        (["127.0.0.1"], "203.0.113.0/24", "203.0.113.9, 198.51.100.7", 403),
        (["127.0.0.1"], "", "127.0.0.1", 200),
        (["127.0.0.1"], "", "203.0.113.9, 127.0.0.1", 403),
        (["127.0.0.1"], "", "not an address", 403),
        (["127.0.0.1"], "", "", 403),
        (["127.0.0.1"], "", "127.0.0.1,", 403),
        (["127.0.0.1"], "", "unknown, 127.0.0.1", 403),
        (["127.0.0.1"], "", ", ".join(["127.0.0.1"] * 40), 403),
        (["127.0.0.1"], "127.0.0.0/8", "not an address", 403),
        (["127.0.0.1", "192.0.2.0/24"], "", "127.0.0.1, 192.0.2.1", 403),
        ([], "", "127.0.0.1", 403),
        ([], "203.0.113.0/24", "203.0.113.9", 403),
    ],
)
async def test_the_address_behind_the_proxy_decides_and_a_made_up_one_does_not(
    tmp_path: Path, proxies: list[str], scrapers: str, forwarded: str, status: int
) -> None:
    """A proxy on this machine that nobody configured must not make the world local."""
    access = closed(*proxies, scrapers=scrapers)
    async with serving(House(services(tmp_path), ScriptedModel()), access=access) as served:
        answer = await served.client.get("/metrics", headers={"X-Forwarded-For": forwarded})
    assert answer.status_code == status
    if status == 403:
        assert answer.json()["error"]["code"] == "metrics_not_allowed"
        assert "METRICS_NETWORKS" in answer.json()["error"]["message"]


@pytest.mark.parametrize("header", ["Forwarded", "X-Real-IP", "Via"])
async def test_what_was_handed_on_by_a_proxy_that_names_its_client_elsewhere_is_not_of_this_machine(
    tmp_path: Path, header: str
) -> None:
    async with serving(House(services(tmp_path), ScriptedModel()), access=closed("127.0.0.1")) as served:
        handed_on = await served.client.get("/metrics", headers={header: "127.0.0.1"})
        named = await served.client.get("/metrics", headers={header: "1.1 proxy", "X-Forwarded-For": "127.0.0.1"})
    assert (handed_on.status_code, named.status_code) == (403, 200)


async def test_a_run_under_way_and_its_end_show_in_the_metrics(tmp_path: Path) -> None:
    metrics = Metrics()
    home = House(services(tmp_path), ScriptedModel(delay_s=0.2), observers=[metrics])
    metrics.running(lambda: home.runs.running)
    async with serving(home, metrics=metrics) as served:
        async with served.asking() as stream:
            await stream.until(lambda frame: frame["type"] == "stage")
            during = samples((await served.client.get("/metrics")).text)
            await stream.until(lambda frame: frame["type"] == "done")
        after = samples((await served.client.get("/metrics")).text)
    assert value(during, "gatehouse_runs_under_way") == 1
    assert value(after, "gatehouse_runs_under_way") == 0
    assert value(after, "gatehouse_runs_total", status="answered", path="direct") == 1


async def test_where_each_worker_has_a_port_of_its_own_the_shared_one_shows_no_ones_numbers(tmp_path: Path) -> None:
    async with serving(House(services(tmp_path), ScriptedModel()), metrics_here=False) as served:
        answer = await served.client.get("/metrics")
    assert answer.status_code == 404
    assert "METRICS_PORT" in answer.json()["error"]["message"]


async def test_the_metrics_can_have_a_port_of_their_own_one_for_each_worker(tmp_path: Path) -> None:
    port = free_port()
    settings = Settings.model_validate({"METRICS_PORT": port - 1, "DATA_DIR": tmp_path})
    metrics = Metrics()
    async with httpx.AsyncClient(trust_env=False) as client:
        with own_port(metrics, settings, worker=1):
            answer = await client.get(f"http://127.0.0.1:{port}/metrics")
            with pytest.raises(OperatorError, match="another METRICS_PORT"), own_port(metrics, settings, worker=1):
                pass
        with pytest.raises(httpx.ConnectError):
            await client.get(f"http://127.0.0.1:{port}/metrics")
    assert value(samples(answer.text), "gatehouse_runs_under_way") == 0
