"""kill -9 in mid-run leaves a log that verifies, and no run without a record (acceptance 3)."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from service.audit.verify import verify
from service.audit.writer import Writer
from tests.audit.logs import audit_log, bodies

ROOT = Path(__file__).parent.parent.parent
ENVIRONMENT = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}


def started(*words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, *words]
    return subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)


async def test_a_process_killed_in_mid_run_leaves_a_whole_log_and_its_run_gets_a_record(tmp_path: Path) -> None:
    process = started("-m", "tests.audit.killed", str(tmp_path))
    assert process.stdout is not None
    with process.stdout as said:
        run_id = said.readline().strip()
    process.kill()
    assert process.wait(timeout=10) == -9
    report = verify(tmp_path / "audit")
    assert (report.whole, report.records) == (True, 3)
    async with audit_log(tmp_path / "audit") as log:
        lost = await log.run(run_id, "alice")
        assert lost is not None
        assert (lost.run.body["ending"]["code"], lost.run.body["question"]) == ("lost", "stall in generation")
    report = verify(tmp_path / "audit")
    assert (report.whole, report.records) == (True, 4)
    assert len({body["run_id"] for body in bodies(tmp_path / "audit")}) == 4


WRITE_FOR_EVER = """
import sys
from pathlib import Path
from service.audit.writer import Writer
writer = Writer(Path(sys.argv[1]), 20_000)
print("writing", flush=True)
for number in range(100_000):
    writer.append("run", {"run_id": f"{sys.argv[2]}-{number}", "text": "x" * 4000})
    print(number, flush=True)
"""


@pytest.mark.parametrize("round_", range(6))
def test_a_writer_killed_at_any_moment_loses_no_record_that_it_was_told_is_written(tmp_path: Path, round_: int) -> None:
    Writer(tmp_path, 20_000).settle()
    written: list[str] = []
    for life in ("first", "second"):
        process = started("-c", WRITE_FOR_EVER, str(tmp_path), life)
        assert process.stdout is not None
        with process.stdout as said:
            said.readline()
            time.sleep(0.03 + 0.017 * round_)
            process.kill()
            process.wait(timeout=10)
            written += [
                f"{life}-{line.strip()}" for line in said.read().splitlines(keepends=True) if line.endswith("\n")
            ]
    Writer(tmp_path, 20_000).settle()
    report = verify(tmp_path)
    assert report.whole, report.faults
    found = [body["run_id"] for body in bodies(tmp_path)]
    assert len(found) == len(set(found))
    assert set(written) <= set(found)
    assert len(found) <= len(written) + 2
