"""The demo as a new user runs it: a real process, a real store, real sockets (acceptance 1)."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.wire import MARKER, Frame, assert_grammar, of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
QUESTION = "What own funds must a category B firm hold at all times?"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(data_dir: Path, port: int) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    chosen = {"DATA_DIR": str(data_dir), "PORT": str(port), "TORCH_THREADS": "1", "COLUMNS": "100"}
    return {**kept, **chosen, "WEB_SEARCH_ENABLED": "false"}  # a test sends nothing outside


def gatehouse(data_dir: Path, port: int, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "service", *words]
    return subprocess.run(
        command, cwd=ROOT, env=environment(data_dir, port), capture_output=True, text=True, timeout=120, check=False
    )


class Demo:
    """A demo server in a process of its own, until `stop`."""

    def __init__(self, data_dir: Path, log: Path, **settings: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = log
        with log.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "service", "demo"],
                cwd=ROOT,
                env={**environment(data_dir, self.port), **settings},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._wait()

    def _wait(self) -> None:
        for _ in range(600):
            assert self.process.poll() is None, self.log.read_text()
            try:
                if httpx.get(f"{self.url}/healthz", timeout=1).status_code == 200:
                    return
            except httpx.HTTPError:
                time.sleep(0.2)
        raise AssertionError(self.log.read_text())

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=20)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def demo(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    running = Demo(data_dir, tmp_path_factory.mktemp("log") / "demo.log")
    yield running
    running.stop()


def chat(url: str, question: str) -> list[Frame]:
    response = httpx.post(f"{url}/chat", json={"question": question}, timeout=60)
    assert response.status_code == 200
    return [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]


def test_a_question_from_the_readme_is_answered_cited_and_verbatim(demo: Demo) -> None:
    frames = chat(demo.url, QUESTION)
    assert_grammar(frames)
    done = frames[-1]
    assert done["status"] == "answered"
    sources = {item["n"]: item for frame in of(frames, "sources") for item in frame["items"]}
    assert {int(n) for n in MARKER.findall(done["answer"])} <= set(sources)
    assert done["citations"]
    for citation in done["citations"]:
        item = sources[citation["n"]]
        stored = httpx.get(
            f"{demo.url}/sources/{item['passage_id']}",
            params={"v": item["sha256"]},
            headers={"Accept": "application/json"},
        ).json()
        assert citation["quote"] in stored["text"]
        assert item["quote"] in stored["text"]


def test_a_citation_opens_a_page_of_the_rulebook_that_this_server_serves(demo: Demo) -> None:
    links = [c["link"] for c in chat(demo.url, QUESTION)[-1]["citations"] if "/site/" in c["link"]]
    assert links
    for link in links:
        page, _, directive = link.partition("#")
        assert httpx.get(page).status_code == 200
        assert directive.startswith(":~:text=")


def test_the_page_and_readiness_are_served(demo: Demo) -> None:
    page = httpx.get(demo.url)
    assert "text/html" in page.headers["content-type"]
    assert "script-src 'self'" in page.headers["content-security-policy"]
    ready = httpx.get(f"{demo.url}/readyz").json()
    assert ready["ready"]
    assert {"milvus", "reranker", "model", "web"} <= {item["name"] for item in ready["dependencies"]}


def test_the_web_toggle_says_honestly_that_the_operator_has_switched_the_web_off(demo: Demo) -> None:
    response = httpx.post(f"{demo.url}/chat", json={"question": QUESTION, "web_search": True}, timeout=60)
    frames = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]
    sources = of(frames, "sources")[0]
    assert sources["web"] == {"query": "", "status": "forbidden"}
    assert any("switched off" in warning for warning in sources["warnings"])
    assert frames[-1]["status"] == "answered"


def test_the_shipped_skills_work_on_the_sample(demo: Demo) -> None:
    names = [skill["name"] for skill in httpx.get(f"{demo.url}/skills").json()["skills"]]
    assert len(names) == 5
    frames = chat(demo.url, f"/plain-summary {QUESTION}")
    assert_grammar(frames, "verified")
    assert (frames[0]["skill"]["name"], frames[0]["delivery"]) == ("plain-summary", "verified")
    assert frames[-1]["status"] == "answered"
    assert {item["label"] for frame in of(frames, "sources") for item in frame["items"]} == {"VECTOR"}
    thread = frames[0]["thread_id"]
    assert httpx.get(f"{demo.url}/threads/{thread}").status_code == 404
    assert httpx.get(f"{demo.url}/threads/{thread}?skill=plain-summary").status_code == 200
    [state] = [one for one in httpx.get(f"{demo.url}/readyz").json()["dependencies"] if one["name"] == "skills"]
    assert state["warning"] == ""


def test_ask_speaks_to_the_running_server(demo: Demo, data_dir: Path) -> None:
    asked = gatehouse(data_dir, free_port(), "ask", QUESTION)
    assert asked.returncode == 0, asked.stderr
    assert f"asking the server at {demo.url}" in asked.stderr
    assert re.search(r"“.+” \[\[\d+\]\]", asked.stdout, re.DOTALL)
    assert "answered:" in asked.stdout


def test_the_audit_log_of_a_running_server_is_whole_and_shows_the_route(demo: Demo, data_dir: Path) -> None:
    run_id = chat(demo.url, QUESTION)[0]["run_id"]
    verified = gatehouse(data_dir, demo.port, "audit", "verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    shown = gatehouse(data_dir, demo.port, "audit", "show", run_id)
    assert f"Question: {QUESTION}" in shown.stdout
    assert "=> reflect -> finalize" in shown.stdout
    assert httpx.get(f"{demo.url}/runs/{run_id}").json()["record"]["question"] == QUESTION


def test_a_second_server_on_the_same_store_says_what_to_do(demo: Demo, data_dir: Path) -> None:
    assert demo.process.poll() is None
    second = gatehouse(data_dir, free_port(), "demo")
    assert second.returncode == 1
    assert "Traceback" not in second.stderr
    assert "Another process has the Milvus Lite store" in second.stderr


def test_a_port_that_is_taken_says_so_before_anything_is_loaded(demo: Demo, tmp_path: Path) -> None:
    second = gatehouse(tmp_path, demo.port, "serve")
    assert second.returncode == 1
    assert "PORT=" in second.stderr
    assert "loading" not in second.stderr


def test_a_second_start_on_another_port_ingests_nothing_and_keeps_threads(
    demo: Demo, data_dir: Path, tmp_path: Path
) -> None:
    demo.stop()
    first = Demo(data_dir, tmp_path / "first.log")
    frames = chat(first.url, QUESTION)
    thread = frames[0]["thread_id"]
    first.stop()
    second = Demo(data_dir, tmp_path / "second.log")
    try:
        assert "40 unchanged" in second.log.read_text()
        assert " 0 added" in second.log.read_text()
        again = httpx.get(f"{second.url}/threads/{thread}").json()
        assert again["items"][0]["answer"] == frames[-1]["answer"]
        assert again["items"][0]["citations"][0]["link"].startswith(second.url)
    finally:
        second.stop()


def test_a_demo_that_is_killed_leaves_a_log_that_verifies_and_starts_again(data_dir: Path, tmp_path: Path) -> None:
    killed = Demo(data_dir, tmp_path / "killed.log")
    with httpx.stream("POST", f"{killed.url}/chat", json={"question": QUESTION}, timeout=60) as response:
        frames = (json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: "))
        run_id = next(frame["run_id"] for frame in frames if frame["type"] == "stage")
        killed.process.kill()
        killed.process.wait(timeout=10)
    assert gatehouse(data_dir, killed.port, "audit", "verify").returncode == 0
    again = Demo(data_dir, tmp_path / "again.log")
    try:
        record = httpx.get(f"{again.url}/runs/{run_id}").json()["record"]
        assert record["ending"]["code"] in ("lost", "")  # "" where it had ended before the signal came
        assert chat(again.url, QUESTION)[-1]["status"] == "answered"
    finally:
        again.stop()
    assert gatehouse(data_dir, again.port, "audit", "verify").returncode == 0


def test_a_demo_that_is_told_to_logs_one_json_object_a_line_from_its_start(data_dir: Path, tmp_path: Path) -> None:
    demo = Demo(data_dir, tmp_path / "demo.log", LOG_FORMAT="json")
    try:
        run_id = chat(demo.url, QUESTION)[0]["run_id"]
    finally:
        demo.stop()
    lines = [json.loads(line) for line in demo.log.read_text().splitlines()]
    assert any("mfca-rulebook: 0 added" in line["message"] for line in lines)
    assert any(line.get("run_id") == run_id for line in lines)
    assert QUESTION not in demo.log.read_text()


def test_ask_without_a_server_answers_in_this_process(data_dir: Path) -> None:
    asked = gatehouse(data_dir, free_port(), "ask", "--json", QUESTION)
    assert asked.returncode == 0, asked.stderr
    frames = [json.loads(line) for line in asked.stdout.splitlines()]
    assert_grammar(frames)
    assert frames[-1]["status"] == "answered"
