"""The whole service in a process of its own, traced: `/readyz`, a trace and a thumb, and SIGTERM."""

import json
import re
import signal
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.deploy.processes import Serving, gatehouse, serving
from tests.observe.collector import Collector, collecting, wait_until
from tests.observe.tracing import PRIVATE, assert_whole, planted_in
from tests.test_wiring import RULES

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traced")
    (folder / "pages").mkdir()
    (folder / "pages" / "records.html").write_text(RULES)
    words = ["ingest", str(folder / "pages"), "--source", "rules", "--kind", "official"]
    done = gatehouse({"DATA_DIR": str(folder / "data")}, *words)
    assert done.returncode == 0, done.stderr
    return folder / "data"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as found:
        yield found


def settings_of(data: Path, collector: Collector) -> dict[str, str]:
    keys = {"LANGFUSE_PUBLIC_KEY": "pk-lf-1", "LANGFUSE_SECRET_KEY": "sk-lf-SECRET"}
    (data.parent / "names.txt").write_text("Blackfriars Wharf\n")
    lists = {"WEB_MASK_FILE": str(data.parent / "names.txt")}
    return {"DATA_DIR": str(data), "LANGFUSE_HOST": collector.url, **keys, **lists}


def ask(server: Serving, question: str) -> httpx.Response:
    return httpx.post(
        f"{server.url}/chat",
        json={"question": question},
        headers={"Accept": "application/json"},
        timeout=60,
        trust_env=False,
    )


def said_at(log: str, words: str) -> datetime:
    """When the line with these words was written."""
    [line] = [line for line in log.splitlines() if words in line]
    return datetime.fromisoformat(json.loads(line)["time"])


def traces_state(server: Serving) -> dict[str, Any]:
    named = httpx.get(f"{server.url}/readyz", timeout=10, trust_env=False).json()["dependencies"]
    state: dict[str, Any] = next(item for item in named if item["name"] == "traces")
    return state


def test_the_service_traces_its_runs_and_the_thumbs_on_them(tmp_path: Path, data: Path, collector: Collector) -> None:
    with serving(tmp_path / "log", settings_of(data, collector)) as server:
        server.until_ready()
        run_id = ask(server, f"How long must a firm keep each record of advice? {PRIVATE}").json()["run_id"]
        thumb = {"thumbs": "up", "comment": PRIVATE}
        given = httpx.post(f"{server.url}/runs/{run_id}/feedback", json=thumb, trust_env=False)
        assert given.status_code == 201, given.text
        wait_until(collector, 1)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
    [trace] = collector.traces().values()
    assert assert_whole(trace).metadata("run_id") == run_id
    assert [(score["name"], score["value"]) for score in collector.scores] == [("thumbs", 1.0)]
    assert planted_in(collector) == []
    assert "sk-lf-SECRET" not in server.log.read_text()


def test_D08_a_hanging_collector_holds_up_neither_answers_nor_sigterm(
    tmp_path: Path, data: Path, collector: Collector
) -> None:
    collector.manner = "hanging"
    with serving(tmp_path / "log", settings_of(data, collector)) as server:
        server.until_ready()
        for number in range(10):
            assert ask(server, f"How long must a firm keep record {number}?").status_code == 200
        state = traces_state(server)
        assert state["ok"]
        # Those that the sender holds at the moment wait no more.
        assert re.search(r": 0 sent, \d+ waiting, 0 dropped", state["detail"])
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0  # the store and the weights take a busy machine a while to let go of
    log = server.log.read_text()
    # Langfuse's own flush would take 18 s here.
    assert said_at(log, "traces: 10 were not sent") - said_at(log, "Finished server process") < timedelta(seconds=6)
    assert "Traceback" not in log
