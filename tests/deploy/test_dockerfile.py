"""The image, as far as it can be shown without Docker: its steps read, and its packaging carried out in a clean folder.

What is not shown here: the base image, the download of the pinned packages, and the user that the kernel gives.
"""

import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
STEPS = [
    (found[1], " ".join(found[2].split()))
    for found in re.finditer(
        r"^([A-Z]+) (.*)$", re.sub(r"\\\n", "", (ROOT / "deploy" / "Dockerfile").read_text()), re.MULTILINE
    )
]
BASES = [index for index, (name, _) in enumerate(STEPS) if name == "FROM"]
BUILD, FINAL = STEPS[BASES[0] : BASES[1]], STEPS[BASES[1] :]


def copied() -> list[str]:
    """What the build stage takes from the repository."""
    return [source for name, words in BUILD if name == "COPY" for source in shlex.split(words)[:-1]]


def ignored(path: str) -> bool:
    """Docker's rule: the last pattern that matches decides."""
    verdict = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!")
        parts = Path(path).parts
        tops = ["/".join(parts[: n + 1]) for n in range(len(parts))]
        plain = pattern.removeprefix("**/")
        if line and not line.startswith("#") and any(fnmatch.fnmatch(top, pattern) or top == plain for top in tops):
            verdict = not line.startswith("!")
    return verdict


def test_the_image_has_two_stages_and_the_last_runs_as_nobody_in_particular() -> None:
    assert len(BASES) == 2
    assert all(re.search(r"python:3\.\d+\.\d+-", STEPS[index][1]) for index in BASES)
    users = [words for name, words in FINAL if name == "USER"]
    assert [words for words in users if int(words.split(":")[0]) > 0] == users != []
    assert FINAL.index(("USER", users[-1])) < next(i for i, (name, _) in enumerate(FINAL) if name == "ENTRYPOINT")


def test_the_last_stage_downloads_nothing_and_takes_only_what_was_built() -> None:
    assert not [words for name, words in FINAL if name == "RUN" and re.search(r"pip|apt|curl|wget", words)]
    assert all(words.startswith("--from=build") for name, words in FINAL if name == "COPY")
    assert not [name for name, _ in STEPS if name == "ADD"]
    [settings] = [words for name, words in FINAL if name == "ENV"]
    assert "HF_HUB_OFFLINE=1" in settings


def test_what_is_copied_exists_and_nothing_else_reaches_the_build() -> None:
    assert copied()
    for source in copied():
        assert (ROOT / source).exists()
        assert not ignored(source)
    for secret in (".env", "deploy/.env", "data/threads.db", ".git/config", "tests/fakes.py"):
        assert ignored(secret), secret


@pytest.mark.slow
def test_what_the_build_installs_runs_on_its_own_without_the_repository_or_the_hub(tmp_path: Path) -> None:
    """The steps of the build stage after the downloads, in a clean folder, over the packages that are here already."""
    source, target, home = tmp_path / "src", tmp_path / "opt", tmp_path / "home"
    source.mkdir()
    for name in copied():
        here = ROOT / name
        skip = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(here, source / name, ignore=skip) if here.is_dir() else shutil.copy(here, source / name)
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*install, "--target", str(target), "."], cwd=source, check=True, capture_output=True, timeout=300)
    home.mkdir(mode=0o700)
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(target),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HF_HUB_OFFLINE": "1",
        "HOME": str(home),
        "DATA_DIR": str(home / "data"),
        "RERANKER_MODEL": "keep-order",
        "TORCH_THREADS": "1",
    }
    (home / "page.html").write_text("<!doctype html><title>R</title><p>REC 1.1 A firm must keep records six years.</p>")
    program = "import service; print(service.__file__); from service.cli import main; main()"

    def run(*words: str) -> str:
        command = [sys.executable, "-c", program, *words]
        done = subprocess.run(command, cwd=home, env=env, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        assert str(target) in done.stdout
        return done.stdout

    assert "contextualize" in run("graph")
    run("ingest", str(home / "page.html"), "--source", "rules", "--kind", "official")
    assert "six years" in run("ask", "--json", "How long must a firm keep records?")
