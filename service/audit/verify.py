"""Proves the log whole, or names each record that is changed, missing, out of order or cut off.

What a hash chain in the writer's own hands cannot show: someone who may write the folder can write the whole log anew,
head included. `Anchor`s, heads that were noted elsewhere (`gatehouse audit verify` prints one), are held against the
log for that.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from service.audit.chain import GENESIS, Link, read_link
from service.audit.head import HEAD_FILE, Head, read_head
from service.audit.lock import LOCK_FILE, WAIT_S, locked
from service.audit.segments import Place, first_seq_of, lines, segments
from service.audit.underway import in_use
from service.errors import AuditDamaged

What = Literal["changed", "missing", "out of order", "twice", "cut off", "no record", "torn", "head"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, with records `first` to `last` (equal for one record, 0 where none is known)."""

    what: What
    first: int
    last: int
    detail: str

    def __str__(self) -> str:
        if not self.first:
            return f"{self.what}: {self.detail}"
        which = f"record {self.first}" if self.first == self.last else f"records {self.first} to {self.last}"
        return f"{which} {self.what}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Anchor:
    """A record's number and hash as they were noted elsewhere."""

    seq: int
    hash: str


@dataclass(slots=True)
class Report:
    """What was found. `last` is the newest record; `ahead` counts those that the head does not name yet.

    `unfinished` says of the last line that it has no end, where that is no fault: a process at work will mend it.
    """

    records: int = 0
    files: int = 0
    last: Anchor = field(default_factory=lambda: Anchor(0, GENESIS))
    ahead: int = 0
    faults: list[Fault] = field(default_factory=list)
    repairs: list[int] = field(default_factory=list)
    unfinished: str = ""

    @property
    def whole(self) -> bool:
        return not self.faults


class _Walk:
    """The chain followed line by line. A record that is not the next one opens a gap, or fills one."""

    def __init__(self, wanted: set[int]) -> None:
        self.report = Report()
        self.expected = 1
        self.gaps: list[tuple[int, int, str]] = []
        self.strays: list[tuple[int, str]] = []
        self.hashes: dict[int, str] = {}
        self._wanted = wanted
        self._prev: Link | None = None
        self._mangled: list[str] = []

    def take(self, link: Link, where: str) -> None:
        link = self._placed(link)
        self._settle_mangled(link.seq)
        self.report.records += 1
        if link.kind == "repair":
            self.report.repairs.append(link.seq)
        if not link.whole:
            self._fault("changed", link.seq, f"{where}: its content is not what its hash says")
        if link.seq in self._wanted:
            self.hashes.setdefault(link.seq, link.computed)
        if link.seq < self.expected:
            self.strays.append((link.seq, where))
            return
        if link.seq > self.expected:
            self.gaps.append((self.expected, link.seq - 1, where))
        else:
            self._check_link(link, where)
        self._prev, self.expected = link, link.seq + 1
        self.report.last = Anchor(link.seq, link.stated)

    def take_mangled(self, where: str) -> None:
        """A whole line without the form of a record."""
        self._mangled.append(where)

    def _placed(self, link: Link) -> Link:
        """A changed line may lie about its number: where it continues the chain, it is the record expected there."""
        continues = self._prev is not None and link.prev == self._prev.stated
        return replace(link, seq=self.expected) if continues and not link.whole else link

    def _settle_mangled(self, seq: int) -> None:
        """Lines that are no records are the ones expected there, where as many are missing before record `seq`."""
        if self._mangled and seq - self.expected == len(self._mangled):
            for where in self._mangled:
                self._fault("changed", self.expected, f"{where} no longer has the form of a record")
                self.expected += 1
            self._prev = None
        else:
            self.report.faults += [Fault("no record", 0, 0, f"{where} is none") for where in self._mangled]
        self._mangled = []

    def _check_link(self, link: Link, where: str) -> None:
        """A record must name the hash of the one before it: the stated one, or its own where only that was changed."""
        if self._prev is None and link.seq > 1:  # what stood before was mangled, and is told of
            return
        before = (self._prev.stated, self._prev.computed) if self._prev else (GENESIS,)
        if link.prev not in before and link.whole:
            detail = f"{where} continues another record {link.seq - 1}: it was replaced"
            self._fault("changed", max(1, link.seq - 1), detail)

    def end(self) -> None:
        """Tell what is missing from what merely stands elsewhere."""
        self._settle_mangled(self.expected + len(self._mangled) if self._wanted_after() else 0)
        moved = {seq for seq, _ in self.strays}
        for first, last, where in self.gaps:
            for start, stop in without(first, last, moved):
                self._fault("missing", start, f"nothing stands before {where}", stop)
        for seq, where in self.strays:
            if any(first <= seq <= last for first, last, _ in self.gaps):
                self._fault("out of order", seq, f"it stands at {where}")
            else:
                self._fault("twice", seq, f"it stands again at {where}")

    def _wanted_after(self) -> bool:
        """Does the head (or an anchor) name a record after the last that was read?"""
        return any(seq >= self.expected for seq in self._wanted)

    def _fault(self, what: What, first: int, detail: str, last: int = 0) -> None:
        if not any((fault.what, fault.first) == (what, first) for fault in self.report.faults[-2:]):
            self.report.faults.append(Fault(what, first, last or first, detail))


def verify(folder: Path, anchors: Sequence[Anchor] = ()) -> Report:
    """Read the whole log once. Blocks: 100,000 records take seconds. A log that does not exist is whole, and empty.

    The service may be writing to it: only a last line without an end is read again under the log's lock.
    """
    try:
        head = _head_of(folder)  # first: the log only grows past it meanwhile
    except AuditDamaged as error:
        head, damaged = None, str(error)
    else:
        damaged = "" if head or not segments(folder) else f"{folder / HEAD_FILE} is missing: the end cannot be known"
    known = [Anchor(head.seq, head.hash)] if head and head.seq else []
    walk = _Walk({anchor.seq for anchor in [*known, *anchors]})
    for name in segments(folder):
        walk.report.files += 1
        _check_name(folder, name, walk)
        _follow(folder, name, walk, head)
    walk.end()
    report = walk.report
    if damaged:
        report.faults.append(Fault("head", 0, 0, damaged))
    report.ahead = max(0, report.last.seq - head.seq) if head else 0
    for anchor, noted in [*((known_one, "the head") for known_one in known), *((one, "an anchor") for one in anchors)]:
        report.faults += _against(anchor, noted, walk)
    return report


def _head_of(folder: Path) -> Head | None:
    """The head; where records stand without one, the first of them may be being written: look again after its writer.

    Raises `AuditDamaged` for a file that is no head.
    """
    head = read_head(folder)
    if head is None and segments(folder):
        with suppress(OSError), _turn(folder):
            head = read_head(folder)
    return head


def _turn(folder: Path) -> AbstractContextManager[None]:
    """The log's lock, under which no line is half written. A copy of a log has none, and nobody writes to it."""
    return locked(folder, WAIT_S) if (folder / LOCK_FILE).exists() else nullcontext()


def _check_name(folder: Path, name: str, walk: _Walk) -> None:
    for _, line in lines(folder, name):
        link = read_link(line)
        if link is not None and link.seq != first_seq_of(name):
            walk.report.faults.append(
                Fault("out of order", link.seq, link.seq, f"it opens {name}, which names another")
            )
        return


def _follow(folder: Path, name: str, walk: _Walk, head: Head | None) -> None:
    for place, line in lines(folder, name):
        if not line.endswith(b"\n"):
            _follow_the_end(folder, place, walk, head)
            return
        _take(line, f"{name} line {place.line}", walk)


def _take(line: bytes, where: str, walk: _Walk) -> None:
    link = read_link(line)
    if link is not None:
        walk.take(link, where)
    else:
        walk.take_mangled(where)


def _follow_the_end(folder: Path, at: Place, walk: _Walk, head: Head | None) -> None:
    """Read the last line again, from `at` on, when its writer has had its turn; by then others may follow it."""
    where = f"{at.segment} line {at.line}"
    try:
        with _turn(folder):
            again = list(lines(folder, at.segment, at.offset))
    except TimeoutError:
        walk.report.unfinished = f"{where} has no end yet: it is being written"
        return
    except OSError:  # not ours to lock: what was read stands
        _tell_torn(folder, at, where, walk, head)
        return
    for place, line in again:
        where = f"{at.segment} line {at.line - 1 + place.line}"
        if line.endswith(b"\n"):
            _take(line, where, walk)
        else:
            _tell_torn(folder, place, where, walk, head)


def _tell_torn(folder: Path, place: Place, where: str, walk: _Walk, head: Head | None) -> None:
    """No record is lost where a line is torn after the head: a process that is alive mends it when it writes next."""
    detail = f"{where} has no end: {place.length} bytes"
    if head is not None and (place.segment, place.offset) >= (head.segment, head.size) and in_use(folder):
        walk.report.unfinished = f"{detail}. The next record that is written mends it"
    else:
        walk.report.faults.append(Fault("torn", 0, 0, f"{detail}. The next start of the service mends it"))


def _against(anchor: Anchor, noted: str, walk: _Walk) -> Iterator[Fault]:
    if anchor.seq >= walk.expected:
        yield Fault("cut off", walk.expected, anchor.seq, f"{noted} names record {anchor.seq}, the log ends before it")
    elif anchor.seq in walk.hashes and walk.hashes[anchor.seq] != anchor.hash:
        yield Fault("changed", anchor.seq, anchor.seq, f"{noted} names another hash for it: the log was written anew")


def without(first: int, last: int, taken: set[int]) -> Iterator[tuple[int, int]]:
    """The parts of first..last that remain when `taken` is left out."""
    start = first
    for seq in sorted(seq for seq in taken if first <= seq <= last):
        if start < seq:
            yield start, seq - 1
        start = seq + 1
    if start <= last:
        yield start, last
