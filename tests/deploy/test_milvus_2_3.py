"""A real Milvus server from before BM25 came (2.5): searched by meaning alone, and everything else as ever."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.processes import ROOT, environment

pytestmark = pytest.mark.slow

INSTALLED = ROOT / ".milvus-2.3" / "bin" / "milvus-server"
"""`.ci/run` puts it there, apart from everything else: its package brings libraries of 2023."""


def server() -> str | None:
    return str(INSTALLED) if INSTALLED.exists() else shutil.which("milvus-server")


def has_a_network_of_its_own() -> bool:
    program = shutil.which("unshare")
    return program is not None and subprocess.run([program, "--net", "true"], capture_output=True).returncode == 0


def test_a_real_server_without_bm25_is_searched_by_meaning_within_its_scope(tmp_path: Path) -> None:
    program = server()
    if program is None:
        pytest.skip("milvus-server is not installed (pip install milvus==2.3.5, in an environment of its own)")
    if not has_a_network_of_its_own():
        pytest.skip("the server listens on every interface, and no network of its own can be made for it here")
    command = ["unshare", "--net", sys.executable, "-m", "tests.deploy.milvus_2_3", program, str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, f"{done.stderr}\n{(tmp_path / 'log').read_text()}"
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["ok"]
    assert seen["detail"].startswith("v2.3.5")
    assert "no BM25" in seen["warning"]
    assert seen["twice"] == [4, 4]
    assert seen["meaning"] == "money must be kept apart"
    assert seen["scoped"] == ["notes on money"]
    assert seen["nothing"] == []
    assert seen["shorter"].count("money must be kept apart") == 1
    assert "a second paragraph of money" not in seen["shorter"]
    assert seen["left"] == ["/1.html"]
    assert seen["count"] == 2
