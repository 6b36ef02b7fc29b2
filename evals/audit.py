"""How long the audit log takes: proving 100,000 records, appending one, finding one."""

import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.audit.chain import GENESIS, encode
from service.audit.head import Head, write_head
from service.audit.index import Index
from service.audit.segments import segment_name
from service.audit.verify import verify
from service.audit.writer import Writer

SEGMENT_BYTES = 64_000_000
SENTENCE = "a firm must keep each record of advice for six years after the advice was given to a retail client"
AT = "2031-01-01T09:00:00.000+00:00"
WORDS = SENTENCE.split()


@dataclass(frozen=True, slots=True)
class Timing:
    records: int
    megabytes: float
    files: int
    verify_s: float
    append_ms: float
    index_s: float
    find_ms: float

    def table(self) -> str:
        rate = self.records / self.verify_s
        return "\n".join(
            [
                "| measure | value |",
                "| --- | --- |",
                f"| records in the log | {self.records:,} ({self.megabytes:,.0f} MB in {self.files} files) |",
                f"| `verify` of the whole log | {self.verify_s:.1f} s ({rate:,.0f} records/s) |",
                f"| appending one record, on disk (median of {APPENDS}) | {self.append_ms:.1f} ms |",
                f"| finding one run by its id (median of {FINDS}) | {self.find_ms:.1f} ms |",
                f"| making the index anew | {self.index_s:.1f} s |",
            ]
        )


APPENDS = 200
FINDS = 50


def measure(folder: Path, records: int) -> Timing:
    """Write a log of this many records (its disk syncs left out), and time what is done with it."""
    files, size = write_log(folder, records)
    began = time.perf_counter()
    report = verify(folder)
    verify_s = time.perf_counter() - began
    assert report.whole, report.faults
    assert report.records == records
    index = Index(folder)
    began = time.perf_counter()
    index.catch_up()
    index_s = time.perf_counter() - began
    chosen = [f"r_{number}" for number in random.Random(1).choices(range(1, records + 1), k=FINDS)]
    find_ms = statistics.median(
        timed_ms(lambda run_id=run_id: index.run(run_id, client_of(run_id))) for run_id in chosen
    )
    writer = Writer(folder, SEGMENT_BYTES)
    bodies = [run_body(records + number) for number in range(1, APPENDS + 1)]
    append_ms = statistics.median(timed_ms(lambda body=body: writer.append("run", body)) for body in bodies)
    return Timing(records, size / 1e6, files, verify_s, append_ms, index_s, find_ms)


def timed_ms(work: Any) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def write_log(folder: Path, records: int) -> tuple[int, int]:
    """Write the files of a log and its head; return how many files and bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    prev, seq, files, total = GENESIS, 0, 0, 0
    head = Head(0, GENESIS, "", 0)
    while seq < records:
        name, size = segment_name(seq + 1), 0
        with (folder / name).open("wb") as file:
            while seq < records and size < SEGMENT_BYTES:
                seq += 1
                line, prev = encode(seq, AT, "run", prev, run_body(seq))
                size += file.write(line)
        files, total, head = files + 1, total + size, Head(seq, prev, name, size)
    write_head(folder, head)
    return files, total


def run_body(number: int) -> dict[str, Any]:
    """A record of the size of a real one: forty candidates, six grades, an answer of a few sentences."""
    rng = random.Random(number)
    return {
        "run_id": f"r_{number}",
        "client": client_of(f"r_{number}"),
        "thread_id": f"t_{number % 5000}",
        "thread_key": f"{number % 5000:064x}",
        "question": said(rng, 20),
        "passes": [{"query": said(rng, 20), "candidates": list(candidates(rng)), "grades": list(grades(rng))}],
        "answer": said(rng, 120),
    }


def client_of(run_id: str) -> str:
    return f"client {int(run_id[2:]) % 50}"


def said(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(WORDS, k=words))


def candidates(rng: random.Random) -> Iterator[dict[str, Any]]:
    for _ in range(40):
        yield {
            "passage_id": f"{rng.getrandbits(80):016x}",
            "sha256": f"{rng.getrandbits(256):064x}",
            "title": said(rng, 6),
            "section": "REC 3.1.2",
            "kind": "official",
            "found": rng.random(),
            "reranked": rng.random(),
        }


def grades(rng: random.Random) -> Iterator[dict[str, Any]]:
    for _ in range(6):
        yield {"passage_id": f"{rng.getrandbits(80):016x}", "result": "pass", "words": said(rng, 25)}
