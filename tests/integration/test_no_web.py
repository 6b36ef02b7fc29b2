"""Without a person's word nothing leaves (acceptance 1): a sealed process over all sample questions."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evals.seed import load_questions
from tests.integration.sealed import PASTED

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux" or os.uname().machine != "x86_64", reason="the seal is made for Linux on x86-64"
    ),
]

ROOT = Path(__file__).parent.parent.parent
Sealed = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Sealed:
    folder = tmp_path_factory.mktemp("sealed")
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    data = {"DATA_DIR": str(folder / "data"), "TORCH_THREADS": "1", "RERANKER_MODEL": "keep-order"}

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "tests.integration.sealed", *words]
        return subprocess.run(
            command, cwd=ROOT, env={**kept, **data}, capture_output=True, text=True, timeout=600, check=False
        )

    done = run("prepare", str(folder))
    assert done.returncode == 0, done.stderr
    return run


@pytest.mark.parametrize(
    ("mode", "status"), [("not-asked", "off"), ("switched-off", "forbidden"), ("forbidden", "forbidden")]
)
def test_not_one_socket_is_opened_over_all_questions(sealed: Sealed, mode: str, status: str) -> None:
    """U03."""
    done = sealed(mode)
    assert done.returncode == 0, done.stderr[-2000:]
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["attempts"] == []
    assert len(said["runs"]) == len(load_questions()) + len(PASTED)
    assert all(run == {"end": "done", "web": {"query": "", "status": status}} for run in said["runs"])


def test_the_seal_kills_a_process_that_does_search(sealed: Sealed) -> None:
    """The test above can fail: with the toggle on, the first search ends the process."""
    assert sealed("asked").returncode == -signal.SIGSYS
