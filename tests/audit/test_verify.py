"""Each kind of tampering is found, and the record is named (acceptance 3)."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.audit.head import HEAD_FILE, Head, read_head, write_head
from service.audit.segments import segments
from service.audit.verify import Anchor, Report, verify
from tests.audit.logs import all_lines, forged, rewrite, written, written_anew

Lines = list[bytes]


def faults(report: Report) -> list[tuple[str, int, int]]:
    return [(fault.what, fault.first, fault.last) for fault in report.faults]


def test_a_log_that_no_one_touched_is_whole(tmp_path: Path) -> None:
    report = verify(written(tmp_path))
    assert report.whole
    assert (report.records, report.files, report.last.seq, report.ahead, report.repairs) == (10, 1, 10, 0, [])


def test_a_log_that_was_never_written_is_whole_and_empty(tmp_path: Path) -> None:
    assert verify(tmp_path / "none").whole
    assert verify(tmp_path).last == Anchor(0, "0" * 64)


def test_a_log_over_many_files_is_one_chain(tmp_path: Path) -> None:
    report = verify(written(tmp_path, 12, segment_bytes=700))
    assert report.whole
    assert report.files > 3
    assert report.records == 12


def changed_word(lines: Lines) -> Lines:
    return [*lines[:4], lines[4].replace(b"word word", b"ward word"), *lines[5:]]


def changed_and_hashed_again(lines: Lines) -> Lines:
    return [*lines[:4], forged(lines[4], text="other words"), *lines[5:]]


def changed_hash(lines: Lines) -> Lines:
    end = lines[4][-67:-3]
    return [*lines[:4], lines[4].replace(end, b"f" * 64), *lines[5:]]


def changed_time(lines: Lines) -> Lines:
    return [*lines[:4], lines[4].replace(b'"at":"2', b'"at":"1'), *lines[5:]]


def changed_number(lines: Lines) -> Lines:
    return [*lines[:4], lines[4].replace(b'{"seq":5,', b'{"seq":7,'), *lines[5:]]


def changed_link(lines: Lines) -> Lines:
    at = lines[4].index(b'"prev":"') + 8
    return [*lines[:4], lines[4][:at] + b"0" * 64 + lines[4][at + 64 :], *lines[5:]]


def scribbled_over(lines: Lines) -> Lines:
    return [*lines[:4], b"\x00" * (len(lines[4]) - 1) + b"\n", *lines[5:]]


def changed_last(lines: Lines) -> Lines:
    return [*lines[:9], lines[9].replace(b"word word", b"ward word")]


def last_forged(lines: Lines) -> Lines:
    return [*lines[:9], forged(lines[9], text="other words")]


def last_scribbled_over(lines: Lines) -> Lines:
    return [*lines[:9], b"x" * (len(lines[9]) - 1) + b"\n"]


TAMPERINGS: list[tuple[Callable[[Lines], Lines], list[tuple[str, int, int]]]] = [
    (changed_word, [("changed", 5, 5)]),
    (changed_and_hashed_again, [("changed", 5, 5)]),
    (changed_hash, [("changed", 5, 5)]),
    (changed_time, [("changed", 5, 5)]),
    (changed_number, [("changed", 5, 5)]),
    (changed_link, [("changed", 5, 5)]),
    (scribbled_over, [("changed", 5, 5)]),
    (changed_last, [("changed", 10, 10)]),
    (last_forged, [("changed", 10, 10)]),
    (last_scribbled_over, [("changed", 10, 10)]),
    (lambda lines: lines[:4] + lines[5:], [("missing", 5, 5)]),
    (lambda lines: lines[:4] + lines[7:], [("missing", 5, 7)]),
    (lambda lines: lines[1:], [("missing", 1, 1)]),
    (lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]], [("out of order", 5, 5)]),
    (lambda lines: [lines[9], *lines[:9]], [("out of order", n, n) for n in range(1, 10)]),
    (lambda lines: [*lines[:4], lines[8], *lines[4:8], lines[9]], [("out of order", n, n) for n in range(5, 9)]),
    (lambda lines: [*lines[:5], lines[4], *lines[5:]], [("twice", 5, 5)]),
    (lambda lines: [*lines[:4], forged(lines[4], text="inserted"), *lines[4:]], [("twice", 5, 5)]),
    (lambda lines: lines[:-1], [("cut off", 10, 10)]),
    (lambda lines: lines[:-3], [("cut off", 8, 10)]),
    (lambda lines: lines[:0], [("cut off", 1, 10)]),
    (lambda lines: [*lines[:9], lines[9][:50]], [("torn", 0, 0), ("cut off", 10, 10)]),
    (lambda lines: [*lines[:4], b"\n", *lines[4:]], [("no record", 0, 0)]),
    (lambda lines: [*lines[:2], *lines[4:9]], [("missing", 3, 4), ("cut off", 10, 10)]),
]


@pytest.mark.parametrize(("tamper", "expected"), TAMPERINGS)
def test_each_kind_of_tampering_is_found_and_the_record_is_named(
    tmp_path: Path, tamper: Callable[[Lines], Lines], expected: list[tuple[str, int, int]]
) -> None:
    rewrite(written(tmp_path), tamper(all_lines(tmp_path)))
    assert set(expected) <= set(faults(verify(tmp_path)))
    assert len(faults(verify(tmp_path))) <= len(expected) + 1


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_no_single_changed_byte_goes_unseen(tmp_path: Path, place: float, flip: int) -> None:
    if not segments(tmp_path):
        written(tmp_path, 4)
    file = tmp_path / segments(tmp_path)[0]
    whole = file.read_bytes()
    at = int(place * len(whole))
    try:
        file.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
        assert not verify(tmp_path).whole
    finally:
        file.write_bytes(whole)


def test_a_file_of_the_log_that_is_gone_is_named_by_its_records(tmp_path: Path) -> None:
    names = segments(written(tmp_path, 12, segment_bytes=700))
    (tmp_path / names[1]).unlink()
    first, after = int(names[1][6:18]), int(names[2][6:18])
    assert faults(verify(tmp_path)) == [("missing", first, after - 1)]


def test_a_last_file_that_is_gone_is_cut_off(tmp_path: Path) -> None:
    names = segments(written(tmp_path, 12, segment_bytes=700))
    (tmp_path / names[-1]).unlink()
    assert faults(verify(tmp_path)) == [("cut off", int(names[-1][6:18]), 12)]


def test_files_whose_names_were_swapped_are_found(tmp_path: Path) -> None:
    names = segments(written(tmp_path, 12, segment_bytes=700))
    first, second = (tmp_path / names[0]).read_bytes(), (tmp_path / names[1]).read_bytes()
    (tmp_path / names[0]).write_bytes(second)
    (tmp_path / names[1]).write_bytes(first)
    assert "out of order" in {what for what, _, _ in faults(verify(tmp_path))}


def test_a_log_that_lost_its_end_and_its_head_is_not_whole(tmp_path: Path) -> None:
    rewrite(written(tmp_path), all_lines(tmp_path)[:-1])
    (tmp_path / HEAD_FILE).unlink()
    assert faults(verify(tmp_path)) == [("head", 0, 0)]


def test_a_head_that_is_no_head_is_reported(tmp_path: Path) -> None:
    (written(tmp_path) / HEAD_FILE).write_bytes(b"\x00" * 400)
    assert faults(verify(tmp_path)) == [("head", 0, 0)]


def test_a_log_written_anew_with_its_head_is_found_by_an_anchor_that_was_noted_elsewhere(tmp_path: Path) -> None:
    noted = verify(written(tmp_path)).last
    written_anew(tmp_path, "nothing of the kind")
    assert verify(tmp_path).whole  # a chain in its forger's hands proves nothing by itself
    assert faults(verify(tmp_path, [noted])) == [("changed", 10, 10)]


def test_an_anchor_of_an_older_record_holds_as_the_log_grows(tmp_path: Path) -> None:
    noted = verify(written(tmp_path, 4)).last
    written(tmp_path, 4)
    assert verify(tmp_path, [noted]).whole
    assert faults(verify(tmp_path, [Anchor(99, "0" * 64)])) == [("cut off", 9, 99)]


def test_a_record_after_the_head_is_a_note_and_no_fault(tmp_path: Path) -> None:
    head = read_head(written(tmp_path, 3))
    written(tmp_path, 1)
    assert head is not None
    write_head(tmp_path, Head(head.seq, head.hash, head.segment, head.size))
    report = verify(tmp_path)
    assert report.whole
    assert report.ahead == 1
