"""Sign-ins in files: hashed, bounded in time, gone when they are ended."""

import time
from pathlib import Path

import pytest

from service.errors import OperatorError
from service.keys import ClientKey
from service.sessions import Sessions

KEY = ClientKey("alice", "a" * 64)


async def test_a_session_is_known_by_its_token_and_by_every_process_of_the_folder(tmp_path: Path) -> None:
    token = await Sessions(tmp_path / "s", 1).begin(KEY)
    assert await Sessions(tmp_path / "s", 1).key_of(token) == KEY
    assert await Sessions(tmp_path / "other", 1).key_of(token) is None


async def test_the_files_hold_no_token(tmp_path: Path) -> None:
    token = await Sessions(tmp_path / "s", 1).begin(KEY)
    [file] = (tmp_path / "s").iterdir()
    assert token not in file.name + file.read_text()
    assert await Sessions(tmp_path / "s", 1).key_of(file.name) is None
    assert (tmp_path / "s").stat().st_mode & 0o077 == 0


async def test_a_session_ends_with_its_time(tmp_path: Path) -> None:
    now = [time.time()]
    sessions = Sessions(tmp_path, 1, lambda: now[0])
    token = await sessions.begin(KEY)
    now[0] += 3599
    assert await sessions.key_of(token) == KEY
    now[0] += 2
    assert await sessions.key_of(token) is None


async def test_a_session_that_is_ended_is_gone_for_good(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path, 1)
    first, second = await sessions.begin(KEY), await sessions.begin(KEY)
    await sessions.end(first)
    await sessions.end(first)
    assert [await sessions.key_of(token) for token in (first, second)] == [None, KEY]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"name": "alice"}', '{"name":"alice","digest":"a","until":"x"}'])
async def test_a_damaged_file_is_no_session(tmp_path: Path, damage: str) -> None:
    sessions = Sessions(tmp_path, 1)
    token = await sessions.begin(KEY)
    next(tmp_path.iterdir()).write_text(damage)  # noqa: ASYNC240
    assert await sessions.key_of(token) is None


@pytest.mark.parametrize("token", ["", "..", "../x", "a" * 42, "a" * 44, "a\x00" * 21 + "a", "é" * 43])
async def test_what_is_no_token_touches_no_file(tmp_path: Path, token: str) -> None:
    sessions = Sessions(tmp_path, 1)
    await sessions.end(token)
    assert await sessions.key_of(token) is None


async def test_old_sessions_are_removed_when_new_ones_begin(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path, 0.0001)
    for _ in range(3):
        await sessions.begin(KEY)
        time.sleep(0.4)  # noqa: ASYNC251 - the files' own clock
    assert len(list(tmp_path.iterdir())) == 1  # noqa: ASYNC240


async def test_a_folder_that_cannot_be_written_is_told_to_the_operator(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OperatorError, match=r"could not be stored.*DATA_DIR/sessions"):
        await Sessions(tmp_path / "file", 1).begin(KEY)
