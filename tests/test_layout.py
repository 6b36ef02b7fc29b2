"""The service can be read, no module is long; the tests can be shared out, each has one name in every process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import service

MAX_LINES = 300
FOLDER = Path(service.__file__).parent


def test_a_module_of_the_service_has_at_most_300_lines() -> None:
    modules = sorted(FOLDER.rglob("*.py"))
    lengths = {str(path.relative_to(FOLDER)): len(path.read_text("utf-8").splitlines()) for path in modules}
    assert len(lengths) > 100
    too_long = {name: length for name, length in lengths.items() if length > MAX_LINES}
    assert not too_long, "a module over 300 lines is two: part it by nouns"


@pytest.mark.slow
def test_a_test_has_one_name_in_every_process() -> None:
    """Processes that share the tests out collect them by themselves: a name by chance, hash or clock stops them all."""

    def collected(hash_seed: str) -> list[str]:
        command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", "-p", "no:xdist"]
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
        ran = subprocess.run(
            command,
            cwd=FOLDER.parent,
            env=environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            timeout=600,
            check=True,
        )
        return [line for line in ran.stdout.splitlines() if "::" in line]

    first, second = collected("1"), collected("2")
    assert len(first) > 5_000
    assert first == second
