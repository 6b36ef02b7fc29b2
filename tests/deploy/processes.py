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


class SharedMilvus:
    """Milvus Lite as a server of its own: several processes may use it, and a test may kill it and start it again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        data = ["--data-dir", str(self._folder / "milvus")]
        words = ["server", *data, "--host", "127.0.0.1", "--port", str(self._port)]
        with (self._folder / "milvus.log").open("ab") as log:
            self._process = subprocess.Popen([sys.executable, "-m", "milvus_lite", *words], stdout=log, stderr=log)
        for _ in range(300):
            assert self._process.poll() is None, (self._folder / "milvus.log").read_text()
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            time.sleep(0.1)
        raise AssertionError((self._folder / "milvus.log").read_text())

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(timeout=20)


@contextmanager
def shared_milvus(folder: Path) -> Iterator[SharedMilvus]:
    running = SharedMilvus(folder)
    running.start()
    try:
        yield running
    finally:
        running.stop()
