"""What DATA_DIR holds is for its owner only: new files whatever the umask, older ones from the next start on."""

import os
import stat
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from service.data_dir import keep_private, make_data_dir, storage_state
from service.errors import OperatorError
from service.keys import ClientKey
from service.knowledge.sources import SourceRegistry
from service.serve import Note, server_note
from service.sessions import Sessions
from service.settings import Settings
from service.store import open_store
from service.thread_store import open_threads
from tests.audit.logs import audit_log
from tests.fakes import ScriptedModel, services
from tests.running import House


@pytest.fixture(params=[0o022, 0o000])
def open_umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    """What in the folder somebody else may read, write or enter."""
    places = [folder, *folder.rglob("*")]
    return [str(place.relative_to(folder)) for place in places if stat.S_IMODE(place.stat().st_mode) & 0o077]


@pytest.mark.usefixtures("open_umask")
async def test_what_a_run_a_sign_in_and_the_threads_leave_is_for_the_owner_only(tmp_path: Path) -> None:
    data = tmp_path / "data"
    make_data_dir(data)
    async with audit_log(data / "audit") as audit, AsyncExitStack() as stack:
        await open_threads(Settings.model_validate({"DATA_DIR": data}), stack)
        SourceRegistry(data / "sources.json").put("rules", "official", "")
        stack.enter_context(server_note(data, Note("http://127.0.0.1:8000", "i")))
        await Sessions(data / "sessions", hours=1).begin(ClientKey("alice", "0" * 64))
        await audit.begin({"run_id": "under way"})
        await House(services(data / "snapshots"), ScriptedModel(), audit=audit).ask()
        assert open_to_others(data) == []
    assert {"audit", "threads.db", "listing.db", "sessions", "snapshots"} <= {place.name for place in data.iterdir()}


@pytest.mark.slow
@pytest.mark.usefixtures("open_umask")
async def test_a_store_that_is_opened_is_for_the_owner_only(tmp_path: Path) -> None:
    data = tmp_path / "data"
    chosen = Settings.model_validate({"DATA_DIR": data, "TORCH_THREADS": 1, "EMBEDDING_MODEL": "all-MiniLM-L6-v2"})
    async with open_store(chosen, lambda _: None):
        assert "milvus.db" not in open_to_others(data)


def test_what_an_earlier_version_left_open_is_closed_and_nothing_else_is_touched(tmp_path: Path) -> None:
    for name in ("audit/underway/x/r.json", "audit/index.db", "snapshots/abc", "sessions/s", "milvus.db/data/f"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    for name in (
        "threads.db",
        "threads.db-wal",
        "listing.db",
        "sources.json",
        "sources.lock",
        "server.json",
        "notes.txt",
    ):
        (tmp_path / name).write_text("x")
    tmp_path.chmod(0o755)
    for place in tmp_path.rglob("*"):
        place.chmod(0o755 if place.is_dir() else 0o664)
    make_data_dir(tmp_path)
    assert open_to_others(tmp_path) == [".", "notes.txt"]
    assert stat.S_IMODE((tmp_path / "audit").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "threads.db").stat().st_mode) == 0o600


def test_a_file_that_belongs_to_someone_else_is_said_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def not_ours(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    (tmp_path / "threads.db").touch(0o644)
    monkeypatch.setattr(Path, "chmod", not_ours)
    keep_private(tmp_path)
    assert "threads.db cannot be made private (Operation not permitted)" in caplog.text


def test_a_folder_that_cannot_be_used_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OperatorError, match="Name a folder to write to"):
        make_data_dir(tmp_path / "file")


def test_the_storage_is_ready_while_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert storage_state(tmp_path).name == "storage"
    monkeypatch.setattr("service.data_dir.LEAST_FREE_MB", 10**12)
    assert not storage_state(tmp_path).ok
