"""nginx with the shipped configuration, on a free port of loopback, in front of given replicas."""

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.postgres_server import free_port

SHIPPED = Path(__file__).parent.parent.parent / "deploy" / "nginx"


def binary() -> str | None:
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/sbin")


@dataclass(frozen=True)
class Nginx:
    port: int
    folder: Path

    def access_log(self) -> str:
        return (self.folder / "access.log").read_text()


def configured(folder: Path, port: int, replicas: Sequence[int], read_timeout: str) -> None:
    """The shipped nginx.conf, with the two files that differ between installations written for this machine."""
    shipped = (SHIPPED / "nginx.conf").read_text()
    assert shipped.count("proxy_read_timeout 60s;") == 2
    (folder / "nginx.conf").write_text(
        shipped.replace("proxy_read_timeout 60s;", f"proxy_read_timeout {read_timeout};")
    )
    (folder / "listen.conf").write_text(f"listen 127.0.0.1:{port};\nserver_name _;\n")
    servers = "\n".join(f"server 127.0.0.1:{replica} max_fails=1 fail_timeout=5s;" for replica in replicas)
    (folder / "upstream.conf").write_text(f"upstream gatehouse {{ zone gatehouse 256k; {servers} keepalive 32; }}\n")


@contextmanager
def running_nginx(*replicas: int, read_timeout: str = "60s") -> Iterator[Nginx]:
    """`read_timeout` shortens the longest silence, so that a test need not wait a minute for it."""
    program = binary()
    if program is None:
        pytest.skip("nginx is not installed (apt-get install nginx)")
    with tempfile.TemporaryDirectory(prefix="gatehouse-nginx-") as name:
        folder, port = Path(name), free_port()
        folder.chmod(0o755)
        configured(folder, port, replicas, read_timeout)
        command = [program, "-p", f"{folder}/", "-c", f"{folder}/nginx.conf", "-e", "stderr", "-g", "daemon off;"]
        with (folder / "error.log").open("wb") as log:
            process = subprocess.Popen(command, stderr=log, stdout=log)
        try:
            until_listening(process, port, folder / "error.log")
            yield Nginx(port, folder)
        finally:
            process.terminate()
            process.wait(timeout=10)


def until_listening(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    for _ in range(200):
        assert process.poll() is None, log.read_text()
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError(log.read_text())
