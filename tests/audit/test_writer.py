"""What a crash, a full disk or another process leaves behind is mended aloud, or refused; nothing is lost."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from service.audit.chain import encode
from service.audit.head import HEAD_FILE, read_head, write_head
from service.audit.segments import segments
from service.audit.verify import verify
from service.audit.writer import Writer
from service.errors import AuditDamaged
from tests.audit.logs import all_lines, bodies, written

ROOT = Path(__file__).parent.parent.parent
BIG = 10_000_000


def append(folder: Path, run_id: str = "next") -> None:
    Writer(folder, BIG).append("run", {"run_id": run_id})


@pytest.mark.parametrize("torn", [b"{", b'{"seq":11,"at":"2031', b"\x00" * 300, b"\n\n", b"\xff\xfe"])
def test_a_torn_last_line_is_taken_out_kept_and_reported_in_the_log(
    tmp_path: Path, torn: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    [name] = segments(written(tmp_path))
    with (tmp_path / name).open("ab") as file:
        file.write(torn)
    append(tmp_path)
    report = verify(tmp_path)
    assert report.whole
    assert report.repairs == [11]
    [repair] = bodies(tmp_path, "repair")
    assert (tmp_path / repair["file"]).read_bytes() == torn
    assert repair["bytes"] == len(torn)
    assert [body["run_id"] for body in bodies(tmp_path)] == [f"r{n}" for n in range(1, 11)] + ["next"]
    assert "mended" in caplog.text


def test_a_torn_first_line_of_a_new_log_is_healed(tmp_path: Path) -> None:
    (tmp_path / "audit-000000000001.jsonl").write_bytes(b'{"seq":1,"at"')
    append(tmp_path)
    assert verify(tmp_path).whole
    assert [body["run_id"] for body in bodies(tmp_path)] == ["next"]


def test_a_record_that_was_written_before_its_head_is_adopted(tmp_path: Path) -> None:
    head = read_head(written(tmp_path, 3))
    assert head is not None
    append(tmp_path, "before the crash")
    write_head(tmp_path, head)
    append(tmp_path, "after it")
    assert verify(tmp_path).whole
    assert [body["run_id"] for body in bodies(tmp_path)][3:] == ["before the crash", "after it"]


def test_a_crash_at_the_beginning_of_a_new_file_is_mended(tmp_path: Path) -> None:
    head = read_head(written(tmp_path, 3))
    assert head is not None
    line, _ = encode(4, "2031-01-01T00:00:00.000+00:00", "run", head.hash, {"run_id": "r4"})
    (tmp_path / "audit-000000000004.jsonl").write_bytes(line)
    append(tmp_path)
    assert verify(tmp_path).whole
    assert [body["run_id"] for body in bodies(tmp_path)][3:] == ["r4", "next"]


def test_a_log_shorter_than_its_head_takes_no_more_records(tmp_path: Path) -> None:
    [name] = segments(written(tmp_path))
    (tmp_path / name).write_bytes(b"".join(all_lines(tmp_path)[:-1]))
    with pytest.raises(AuditDamaged, match=r"record 10.*audit verify"):
        append(tmp_path)
    assert len(all_lines(tmp_path)) == 9


@pytest.mark.parametrize("spoil", [Path.unlink, lambda head: head.write_bytes(b"?")])
def test_a_log_without_a_readable_head_takes_no_more_records(tmp_path: Path, spoil: object) -> None:
    spoil(written(tmp_path) / HEAD_FILE)  # type: ignore[operator]  # one of two functions of a path
    with pytest.raises(AuditDamaged, match="head"):
        append(tmp_path)


def test_a_log_that_is_full_goes_on_in_the_next_file(tmp_path: Path) -> None:
    written(tmp_path, 12, segment_bytes=700)
    sizes = [(tmp_path / name).stat().st_size for name in segments(tmp_path)]
    assert all(700 <= size < 1100 for size in sizes[:-1])
    assert [json.loads(line)["seq"] for line in all_lines(tmp_path)] == list(range(1, 13))


def test_a_write_that_fails_half_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, 3)
    write = os.write
    left = [20]

    def fill_up(descriptor: int, data: bytes) -> int:
        if not left[0]:
            raise OSError(28, "No space left on device")
        taken, left[0] = write(descriptor, data[: left[0]]), 0
        return taken

    monkeypatch.setattr(os, "write", fill_up)
    with pytest.raises(OSError, match="No space"):
        append(tmp_path)
    monkeypatch.undo()
    assert verify(tmp_path).whole
    append(tmp_path)
    assert verify(tmp_path).repairs == []
    assert len(bodies(tmp_path)) == 4


def test_a_value_that_json_cannot_say_does_not_lose_its_record(tmp_path: Path) -> None:
    odd = {
        "run_id": "r",
        "score": float("nan"),
        "list": [float("inf")],
        "path": tmp_path,
        "text": "a\ud800\u2028\n\x00",
    }
    Writer(tmp_path, BIG).append("run", odd)
    assert verify(tmp_path).whole
    [body] = bodies(tmp_path)
    assert (body["score"], body["list"], body["path"]) == ("nan", ["inf"], str(tmp_path))
    assert body["text"] == "a\ufffd\u2028\n\x00"


WRITE_MANY = """
import sys
from pathlib import Path
from service.audit.writer import Writer
writer = Writer(Path(sys.argv[1]), 5000)
for number in range(40):
    writer.append("run", {"run_id": f"{sys.argv[2]}-{number}", "text": "x" * 200})
"""


def test_two_processes_on_one_log_interleave_whole_records(tmp_path: Path) -> None:
    both = [
        subprocess.Popen([sys.executable, "-c", WRITE_MANY, str(tmp_path), name], cwd=ROOT, env={"PATH": ""})
        for name in ("one", "two")
    ]
    assert [process.wait(timeout=60) for process in both] == [0, 0]
    report = verify(tmp_path)
    assert report.whole, report.faults
    assert report.records == 80
    for name in ("one", "two"):
        mine = [body["run_id"] for body in bodies(tmp_path) if body["run_id"].startswith(name)]
        assert mine == [f"{name}-{n}" for n in range(40)]


def test_the_files_are_for_their_owner_only(tmp_path: Path) -> None:
    written(tmp_path / "audit")
    assert (tmp_path / "audit").stat().st_mode & 0o077 == 0
    assert all(file.stat().st_mode & 0o077 == 0 for file in (tmp_path / "audit").iterdir())


def test_a_head_is_never_ahead_of_the_log_whatever_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record is on disk before the head names it; a head that cannot be written loses nothing."""
    written(tmp_path, 2)

    def refuse(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("service.audit.writer.write_head", refuse)
    append(tmp_path, "r3")
    assert verify(tmp_path).ahead == 1
    monkeypatch.undo()
    append(tmp_path, "r4")
    assert verify(tmp_path).whole
    assert [body["run_id"] for body in bodies(tmp_path)] == ["r1", "r2", "r3", "r4"]
