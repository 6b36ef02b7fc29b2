"""A whole installation natively: two service processes over one Milvus and one PostgreSQL, behind nginx."""

import json
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.deploy.nginx import Nginx, running_nginx
from tests.deploy.processes import Serving, SharedMilvus, gatehouse, serving, shared_milvus
from tests.postgres_server import running_postgres
from tests.wire import Frame, assert_grammar

pytestmark = pytest.mark.slow

RULES = """<!doctype html><title>Records</title><main><h1>Records</h1>
<p>REC 1.1 A firm must keep each record of advice for six years after the advice was given.</p>
<p>REC 1.2 A firm must keep recorded calls for five years.</p></main>"""
QUESTION = "How long must a firm keep each record of advice?"
SHOWN = {"answered", "partial"}
"""Quote gives the passage either way; how sure it is of it is not what is tested here."""


@dataclass
class Installation:
    settings: dict[str, str]
    replicas: list[Serving]
    nginx: Nginx
    milvus: SharedMilvus
    folder: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.nginx.port}"

    def ask(self, question: str = QUESTION, thread: str = "t") -> list[Frame]:
        asked = {"question": question, "thread_id": thread}
        response = httpx.post(f"{self.url}/chat", json=asked, timeout=60, trust_env=False)
        assert response.status_code == 200, response.text
        return [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]

    def answered(self) -> Counter[int]:
        """How many questions each replica's port has answered."""
        found = re.findall(r'"POST /chat" 200 .*127\.0\.0\.1:(\d+)"\n', self.nginx.access_log())
        return Counter(int(port) for port in found)


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("installation")
    (folder / "pages").mkdir()
    (folder / "pages" / "records.html").write_text(RULES)
    with ExitStack() as stack:
        postgres = stack.enter_context(running_postgres())
        milvus = stack.enter_context(shared_milvus(folder))
        settings = {
            "DATA_DIR": str(folder / "data"),
            "MILVUS_URI": milvus.url,
            "DATABASE_URL": postgres.url(),
        }
        ingested = gatehouse(settings, "ingest", str(folder / "pages"), "--source", "rules", "--kind", "official")
        assert ingested.returncode == 0, ingested.stderr
        replicas = [stack.enter_context(serving(folder / f"{n}.log", settings)) for n in ("one", "other")]
        ports = [replica.until_ready().port for replica in replicas]
        yield Installation(settings, replicas, stack.enter_context(running_nginx(*ports)), milvus, folder)


def test_a_thread_is_continued_on_either_of_two_processes_behind_nginx(installation: Installation) -> None:
    turns = [installation.ask() for _ in range(4)]
    for frames in turns:
        assert_grammar(frames)
        assert frames[-1]["status"] in SHOWN
        assert "six years" in frames[-1]["answer"]
    answered = installation.answered()
    assert sorted(answered) == sorted(replica.port for replica in installation.replicas)
    assert min(answered.values()) >= 1
    for replica in installation.replicas:
        thread = httpx.get(f"{replica.url}/threads/t", trust_env=False).json()
        assert [item["answer"] for item in thread["items"]] == [frames[-1]["answer"] for frames in turns]
        assert [item["run_id"] for item in thread["items"]] == [frames[-1]["run_id"] for frames in turns]
    numbers = {(source["n"], source["passage_id"]) for frames in turns for source in frames[-1]["sources"]}
    assert len(numbers) == len({n for n, _ in numbers})


def test_the_thread_stands_in_postgres_alone(installation: Installation) -> None:
    installation.ask(thread="stored")
    assert not list((installation.folder / "data").glob("*.db"))
    with psycopg.connect(installation.settings["DATABASE_URL"]) as connection:
        counted = connection.execute("SELECT COUNT(*), COUNT(DISTINCT thread_id) FROM checkpoints").fetchone()
    assert counted is not None
    assert counted[0] == counted[1]


def test_a_replica_that_is_stopped_leaves_the_thread_to_the_other(installation: Installation) -> None:
    installation.ask(thread="moved")
    gone, stays = installation.replicas
    began = time.monotonic()
    assert gone.stop() == 0
    assert time.monotonic() - began < 15
    assert {installation.ask(thread="moved")[-1]["status"] for _ in range(3)} <= SHOWN
    with httpx.Client(base_url=stays.url, trust_env=False) as client:
        assert len(client.get("/threads/moved").json()["items"]) == 4
    thread = httpx.get(f"{installation.url}/threads/moved", trust_env=False).json()
    assert len(thread["items"]) == 4


def test_D10_a_milvus_that_was_away_is_used_again_without_a_restart_of_ours(installation: Installation) -> None:
    installation.ask(thread="outage")
    installation.milvus.stop(signal.SIGKILL)
    try:
        for _ in range(2):
            began = time.monotonic()
            frames = installation.ask(thread="outage")
            assert_grammar(frames)
            assert (frames[-1]["type"], frames[-1]["code"]) == ("error", "knowledge_base_unavailable")
            assert time.monotonic() - began < 15
    finally:
        installation.milvus.start()
    for _ in range(50):
        frames = installation.ask(thread="outage")
        if frames[-1]["type"] == "done":
            break
        time.sleep(0.2)
    assert frames[-1]["status"] in SHOWN
    assert "six years" in frames[-1]["answer"]


def until_refused(url: str) -> bool:
    for _ in range(150):
        try:
            httpx.get(f"{url}/healthz", timeout=5, trust_env=False)
        except httpx.ConnectError:
            return True
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    return False


def both_serve(workers: Serving) -> None:
    for _ in range(600):
        if workers.log.read_text().count("Application startup complete") == 2:
            return
        time.sleep(0.1)
    raise AssertionError(workers.log.read_text())


def instance_of(url: str) -> str:
    return str(httpx.get(f"{url}/healthz", timeout=10, trust_env=False).json()["instance"])


def test_workers_share_one_port_and_one_thread_and_end_with_their_parent(
    installation: Installation, tmp_path: Path
) -> None:
    settings = {**installation.settings, "WORKERS": "2"}
    with serving(tmp_path / "workers.log", settings) as workers:
        workers.until_ready()
        both_serve(workers)
        instances = {instance_of(workers.url) for _ in range(20)}
        assert len(instances) == 1, "`gatehouse ask` knows the server by it, whichever worker answers"
        for _ in range(3):
            asked_by_command = gatehouse(settings, "ask", QUESTION, "--thread", "command", "--json")
            assert asked_by_command.returncode == 0, asked_by_command.stderr
            assert f"asking the server at {workers.url}" in asked_by_command.stderr
        by_command = httpx.get(f"{workers.url}/threads/command", trust_env=False).json()
        assert len(by_command["items"]) == 3
        for _ in range(3):
            asked = {"question": QUESTION, "thread_id": "workers"}
            answer = httpx.post(
                f"{workers.url}/chat", json=asked, headers={"Accept": "application/json"}, timeout=60, trust_env=False
            )
            assert answer.json()["status"] in SHOWN, answer.text
        thread = httpx.get(f"{workers.url}/threads/workers", trust_env=False).json()
        assert len(thread["items"]) == 3
        workers.process.send_signal(signal.SIGKILL)
        assert until_refused(workers.url), "a worker goes on without its parent"


def test_a_stop_of_several_workers_is_over_within_15_s(installation: Installation, tmp_path: Path) -> None:
    with serving(tmp_path / "workers.log", {**installation.settings, "WORKERS": "2"}) as workers:
        workers.until_ready()
        began = time.monotonic()
        assert workers.stop() == 0
        assert time.monotonic() - began < 15
        assert until_refused(workers.url)
    assert "Traceback" not in workers.log.read_text()


def test_workers_that_cannot_start_end_with_what_is_wrong(installation: Installation, tmp_path: Path) -> None:
    away = {**installation.settings, "WORKERS": "2", "DATABASE_URL": "postgresql://owner:s3cret@127.0.0.1:1/none"}
    failed = gatehouse({**away, "DATA_DIR": str(tmp_path)}, "serve")
    assert failed.returncode == 1
    assert "DATABASE_URL" in failed.stderr
    assert "A worker ended while it was starting" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert "s3cret" not in failed.stderr
