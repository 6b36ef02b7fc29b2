"""Several server processes on one port, as processes: started, replaced, stopped."""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from service import serve, workers
from service.audit import log
from service.errors import OperatorError
from service.graph import runs
from service.observe import langfuse, scoring
from service.settings import Settings
from service.workers import Post, Workers, listen


def lives(post: Post) -> None:
    """A worker that answers nothing and ends at SIGTERM. Each start leaves its process id and number in the folder."""
    post.serves()
    folder = Path(os.environ["WORKERS_TEST"])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    (folder / str(os.getpid())).write_text(str(post.number))
    assert post.shared.fileno() >= 0
    time.sleep(60)


def fails(post: Post) -> None:  # noqa: ARG001 - what a worker is called with
    sys.exit(3)


def serves_and_ends(post: Post) -> None:
    """A worker that starts well and is over at once. Each start leaves its process id in the folder."""
    post.serves()
    (Path(os.environ["WORKERS_TEST"]) / str(os.getpid())).touch()
    sys.exit(3)


def serves_once(post: Post) -> None:
    """The first serves and ends; the next two cannot start, as where a database is away; the fourth stops them all."""
    folder = Path(os.environ["WORKERS_TEST"])
    (folder / str(os.getpid())).touch()
    count = len(list(folder.iterdir()))
    if count == 1:
        post.serves()
    if count <= 3:
        sys.exit(3)
    os.kill(os.getppid(), signal.SIGTERM)


def stays(post: Post) -> None:
    """A worker that hangs: no signal but a kill ends it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    (Path(os.environ["WORKERS_TEST"]) / str(os.getpid())).touch()
    assert post.shared.fileno() >= 0
    time.sleep(60)


def parent_of_hanging(port: int) -> None:
    with listen("127.0.0.1", port) as shared:
        workers.STOPPING_S = 0.5
        Workers(stays, shared, 2).run()


def parent(port: int) -> None:
    with listen("127.0.0.1", port) as shared:
        Workers(lives, shared, 2).run()


@contextmanager
def kept_signals() -> Iterator[None]:
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def started(folder: Path, count: int) -> set[int]:
    for _ in range(2400):
        pids = {int(file.name) for file in folder.iterdir()}
        if len(pids) >= count:
            return pids
        time.sleep(0.05)
    raise AssertionError(f"{count} workers did not start")


def number_of(folder: Path, pid: int) -> str:
    for _ in range(100):
        if number := (folder / str(pid)).read_text():
            return number
        time.sleep(0.02)
    raise AssertionError("a worker left no number")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced_and_a_signal_stops_them_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKERS_TEST", str(tmp_path))
    process = multiprocessing.get_context("spawn").Process(target=parent, args=(0,))
    process.start()
    try:
        first, second = started(tmp_path, 2)
        os.kill(first, signal.SIGKILL)
        pids = started(tmp_path, 3)
        assert is_alive(second)
        [third] = pids - {first, second}
        assert number_of(tmp_path, third) == number_of(tmp_path, first) != number_of(tmp_path, second)
        process.terminate()
        process.join(30)
        assert process.exitcode == 0
        assert not [pid for pid in pids if is_alive(pid)]
    finally:
        process.kill()
        process.join()


@pytest.mark.slow
def test_workers_that_hang_are_killed_when_their_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKERS_TEST", str(tmp_path))
    process = multiprocessing.get_context("spawn").Process(target=parent_of_hanging, args=(0,))
    process.start()
    try:
        pids = started(tmp_path, 2)
        process.terminate()
        process.join(15)
        assert process.exitcode == 0
        assert not [pid for pid in pids if is_alive(pid)]
    finally:
        process.kill()
        process.join()


def test_a_stop_of_every_part_of_the_service_together_takes_less_than_15_s() -> None:
    assert runs.ENDING_S + log.WRITE_S < runs.CLOSING_S
    worker_s = runs.CLOSING_S + serve.GRACE_S + serve.LAST_S
    assert log.CLOSE_S < serve.LAST_S
    # The audit log is closed after them, and an end that takes longer is cut off.
    assert scoring.DRAIN_S + scoring.LEAVE_S + langfuse.CLOSING_S < serve.LAST_S
    assert worker_s < workers.STOPPING_S < 15


@pytest.mark.slow
def test_workers_that_end_while_starting_are_not_started_for_ever() -> None:
    with kept_signals(), listen("127.0.0.1", 0) as shared, pytest.raises(OperatorError, match="while it was starting"):
        Workers(fails, shared, 2).run()


@pytest.mark.slow
def test_a_worker_that_served_is_replaced_however_young_it_was_but_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKERS_TEST", str(tmp_path))
    monkeypatch.setattr(workers, "MINUTE_S", 600.0)  # a busy machine starts no six processes in a minute
    with kept_signals(), listen("127.0.0.1", 0) as shared, pytest.raises(OperatorError, match="6 times within"):
        Workers(serves_and_ends, shared, 1).run()
    assert len(list(tmp_path.iterdir())) == workers.MOST_RESTARTS + 1


@pytest.mark.slow
def test_who_replaces_a_worker_that_served_may_fail_to_start_while_the_bound_is_not_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKERS_TEST", str(tmp_path))
    with kept_signals(), listen("127.0.0.1", 0) as shared:
        Workers(serves_once, shared, 1).run()
    assert len(list(tmp_path.iterdir())) == 4


def test_a_port_that_is_taken_says_what_to_do() -> None:
    with listen("127.0.0.1", 0) as taken:
        taken.listen()
        with pytest.raises(OperatorError, match="PORT="):
            listen("127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"WORKERS": 2}, "MILVUS_URI"),
        ({"WORKERS": 2, "DATABASE_URL": "postgresql://h/x"}, "MILVUS_URI"),
        ({"WORKERS": 2, "MILVUS_URI": "http://127.0.0.1:19530"}, "DATABASE_URL"),
        ({"DATABASE_URL": "mysql://h/x"}, "postgresql://"),
        ({"WORKERS": 0}, "greater than or equal to 1"),
    ],
)
def test_what_several_processes_cannot_share_is_refused_with_the_way_out(given: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Settings.model_validate(given)


def test_several_processes_with_what_they_share_are_admitted() -> None:
    shared = {"MILVUS_URI": "http://127.0.0.1:19530", "DATABASE_URL": "postgresql://owner:s3cret@h/x"}
    chosen = Settings.model_validate({"WORKERS": 2, **shared})
    assert chosen.WORKERS == 2
    assert "s3cret" not in repr(chosen)
