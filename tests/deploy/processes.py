"""Processes of an installation: the service with given settings, and the Milvus that its replicas share."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.postgres_server import free_port

ROOT = Path(__file__).parent.parent.parent


def environment(**settings: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "PYTHONPATH") if name in os.environ}
    limits = {"MAX_RUNS_PER_CLIENT": "100", "RATE_LIMIT_PER_MINUTE": "1000"}
    return {**kept, "TORCH_THREADS": "1", "RERANKER_MODEL": "keep-order", "HF_HUB_OFFLINE": "1", **limits, **settings}


def gatehouse(settings: Mapping[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "service", *words]
    env = environment(**settings)
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=180, check=False)


class Serving:
    """`gatehouse serve` in a process of its own."""

    def __init__(self, log: Path, settings: Mapping[str, str]) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = log
        with log.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "service", "serve"],
                cwd=ROOT,
                env=environment(**{**settings, "PORT": str(self.port)}),
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def until_ready(self) -> "Serving":
        for _ in range(600):
            assert self.process.poll() is None, self.log.read_text()
            try:
                if httpx.get(f"{self.url}/readyz", timeout=5, trust_env=False).json()["ready"]:
                    return self
            except httpx.HTTPError:
                time.sleep(0.2)
        raise AssertionError(self.log.read_text())

    def stop(self) -> int:
        """SIGTERM, and the exit code within 15 s."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=15)
        finally:
            self.process.kill()


@contextmanager
def serving(log: Path, settings: Mapping[str, str]) -> Iterator[Serving]:
    running = Serving(log, settings)
    try:
        yield running
    finally:
        running.stop()


@contextmanager
def shared_milvus(folder: Path) -> Iterator[str]:
    """Milvus Lite as a server of its own, which several processes may use; yields its URL."""
    port = free_port()
    words = ["server", "--data-dir", str(folder / "milvus"), "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "milvus.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", "milvus_lite", *words], stdout=log, stderr=log)
    try:
        for _ in range(300):
            assert process.poll() is None, (folder / "milvus.log").read_text()
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=20)
