"""A real PostgreSQL for a test: Debian's binaries, an unprivileged user, a folder of its own, a free port."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

PASSWORD = "s3cret/of@the:tests"
WHY_NOT = "PostgreSQL is not installed (apt-get install postgresql)"


def binaries() -> Path | None:
    """The folder of the newest PostgreSQL: Debian keeps it out of PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda file: int(file.parent.parent.name))
    if found:
        return found[-1].parent
    there = shutil.which("initdb")
    return Path(there).resolve().parent if there else None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def unprivileged() -> str | None:
    """PostgreSQL refuses to run as root: the name of a user it may run as instead, None for our own."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


class PostgresServer:
    """A cluster in `folder`. `stop` and `start` are the operator's restart."""

    def __init__(self, folder: Path, bin_dir: Path) -> None:
        self._folder = folder
        self._bin = bin_dir
        self._user = unprivileged()
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()

    def url(self, password: str = PASSWORD, role: str = "owner") -> str:
        return f"postgresql://{role}:{quote(password, safe='')}@127.0.0.1:{self.port}/postgres"

    def create(self) -> None:
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        secret = self._folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        words = ["--username=owner", "--auth=scram-sha-256", f"--pwfile={secret}", "--no-sync", "--encoding=UTF8"]
        command = [str(self._bin / "initdb"), *words, "--locale=C", "--pgdata", str(self._folder / "data")]
        subprocess.run(command, check=True, capture_output=True, timeout=60, user=self._user, cwd=self._folder)

    def start(self) -> None:
        command = [str(self._bin / "postgres"), "-D", str(self._folder / "data"), "-p", str(self.port)]
        for setting in ("listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"):
            command += ["-c", setting]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, user=self._user, cwd=self._folder)
        for _ in range(300):
            assert self._process.poll() is None, (self._folder / "log").read_text()
            try:
                psycopg.connect(self.url(), connect_timeout=1).close()
                return
            except psycopg.OperationalError:
                time.sleep(0.05)
        raise AssertionError((self._folder / "log").read_text())

    def signal(self, number: int) -> None:
        """Send a signal to the server and what it started: SIGSTOP makes it silent."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        for pid in (self._process.pid, *map(int, children)):
            os.kill(pid, number)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(2)  # fast shutdown: sessions are ended
            self._process.wait(timeout=30)

    def empty(self) -> str:
        """Empty the one database and return its URL. (Many databases are many files, which are slow to remove.)"""
        self.ask("DROP SCHEMA public CASCADE")
        self.ask("CREATE SCHEMA public")
        return self.url()

    def end_sessions(self) -> None:
        """End every session, as an operator or a failover does."""
        self.ask(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid()"
        )

    def ask(self, query: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            cursor = connection.execute(query.encode())
            return list(cursor.fetchall()) if cursor.description else []


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    bin_dir = binaries()
    if bin_dir is None:
        pytest.skip(WHY_NOT)
    with tempfile.TemporaryDirectory(prefix="gatehouse-postgres-") as folder:
        server = PostgresServer(Path(folder), bin_dir)
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop()
