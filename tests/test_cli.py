"""The commands say in plain words what to do when they cannot go on."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from service import cli, console, wiring
from service.cli import app, main
from service.errors import InvalidRequest, OperatorError, ThreadBusy
from service.knowledge.ingest import IngestReport, Progress
from service.serve import Note, read_note
from service.settings import Settings, load_settings
from service.skills.registry import Skills
from service.threads import ThreadRef
from tests.fakes import ScriptedModel, services
from tests.graph.test_shared_locks import SharedLocks
from tests.postgres_server import free_port
from tests.running import House


@pytest.fixture(autouse=True)
def away_from_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No `.env` of a developer's, and no data folder in the checkout."""
    monkeypatch.chdir(tmp_path)


def run_main(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["gatehouse", *words])
    with pytest.raises(SystemExit) as exited:
        main()
    return int(exited.value.code or 0)


BAD = [
    ("PORT", "99999"),
    ("TOP_N", "many"),
    ("GRADE_MODE", "all"),
    ("MAX_REWRITES", "-1"),
    ("METRICS_PORT", "8000"),  # PORT's own
    ("ALLOWED_HOSTS", "https://gatehouse.example.org"),
    ("ALLOWED_HOSTS", "gatehouse.example.org:8080"),
    ("ALLOWED_HOSTS", "cafe:8080"),
    ("ALLOWED_HOSTS", "gatehouse.example.org, *example.org"),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_setting_out_of_bounds_is_refused_at_start_and_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert run_main(monkeypatch, "serve") == 1
    said = capsys.readouterr().err
    assert name in said
    assert "Traceback" not in said


@pytest.mark.parametrize("names", ["*", "gatehouse.example.org", "*.example.org, Gatehouse, 10.0.0.7,[::1], ::1"])
def test_names_that_a_server_is_asked_under_are_taken(names: str) -> None:
    assert names == Settings(ALLOWED_HOSTS=names).ALLOWED_HOSTS


def test_an_unknown_key_in_the_env_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("TOP_M=6\n")
    with pytest.raises(OperatorError, match="TOP_M"):
        load_settings()


def test_a_secret_is_not_printed() -> None:
    assert "sk-secret" not in repr(Settings(ANTHROPIC_API_KEY="sk-secret"))


def test_the_kind_of_a_source_is_checked_before_anything_is_loaded() -> None:
    result = CliRunner().invoke(app, ["ingest", "x", "--source", "s", "--kind", "gossip"])
    assert result.exit_code == 2
    assert "official" in result.output
    assert "reference" in result.output


def test_a_blank_question_is_refused_like_on_the_wire(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(monkeypatch, "ask", "  ") == 2
    assert "at least one letter or digit" in capsys.readouterr().err


def test_no_error_and_no_line_of_progress_steers_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused() -> None:
        console.tell("not ingested: a\x1b]0;x\x07.html: \u202ewhy", "red")
        raise InvalidRequest("the server says \x1b[2Jno")

    monkeypatch.setattr(cli, "app", refused)
    assert run_main(monkeypatch) == 2
    said = capsys.readouterr().err
    assert r"a\x1b]0;x\x07.html: \u202ewhy" in said
    assert r"error: the server says \x1b[2Jno" in said
    assert all(character.isprintable() or character == "\n" for character in said)


async def test_who_asked_to_prune_is_told_that_nothing_was_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    class Ingestor:
        async def ingest(self, _: list[str], **__: object) -> IngestReport:
            return IngestReport(
                failed=[("tow", "no such file or folder")], unpruned="Nothing was pruned: tow is missing."
            )

    store: Any = SimpleNamespace(ingestor=Ingestor())
    with pytest.raises(OperatorError):
        await cli.ingest_into(store, ["tow"], "rules", "official", "", prune=True)
    assert "Nothing was pruned: tow is missing." in capsys.readouterr().err


async def test_a_file_that_is_named_like_markup_is_ingested(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Ingestor:
        async def ingest(self, paths: list[str], *, progress: Progress, **_: object) -> IngestReport:
            progress(f"{paths[0]}\x1b[2J", 1, 2)
            return IngestReport()

    monkeypatch.setattr(cli, "say", Console(stderr=True, force_terminal=True))
    store: Any = SimpleNamespace(ingestor=Ingestor())
    await cli.ingest_into(store, ["[/red].html"], "rules", "official", "")
    said = capsys.readouterr().err
    assert "0 failed" in said
    assert "\x1b[2J" not in said


def test_the_provider_is_claude_where_a_key_or_a_base_url_is_set() -> None:
    assert Settings().provider() == "quote"
    assert Settings(ANTHROPIC_BASE_URL="http://127.0.0.1:1").provider() == "claude"
    assert Settings(ANTHROPIC_BASE_URL="http://127.0.0.1:1", MODEL_PROVIDER="quote").provider() == "quote"


async def test_a_thread_that_is_being_answered_elsewhere_shows_nothing_but_the_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(services(tmp_path), ScriptedModel(), locks=SharedLocks(ThreadRef("127.0.0.1", "t").key))

    @asynccontextmanager
    async def opened(*_: object) -> AsyncIterator[Any]:
        async def count() -> int:
            return 1

        store = SimpleNamespace(knowledge=SimpleNamespace(count=count))
        api = SimpleNamespace(skills=Skills(), presenter=house.presenter)
        yield SimpleNamespace(store=store, runs=house.runs, api=api)

    monkeypatch.setattr(wiring, "open_gatehouse", opened)
    with pytest.raises(ThreadBusy):
        await anext(cli.in_process(Settings(), {"question": "cobalt", "thread_id": "t"}))
    answered = [event["type"] async for event in cli.in_process(Settings(), {"question": "cobalt", "thread_id": "u"})]
    assert (answered[0], answered[-1]) == ("run", "done")


def test_the_workers_of_a_server_share_the_name_that_its_note_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[tuple[object, Note | None]] = []

    class Workers:
        def __init__(self, serve: partial[None], *_: object) -> None:
            self.instance = serve.args[0]

        def run(self) -> None:
            found.append((self.instance, read_note(tmp_path / "data")))

    shared = {"MILVUS_URI": "http://127.0.0.1:19530", "DATABASE_URL": "postgresql://owner@h/x"}
    chosen = Settings.model_validate({"WORKERS": 2, "PORT": free_port(), "DATA_DIR": tmp_path / "data", **shared})
    monkeypatch.setattr(cli, "load_settings", lambda: chosen)
    monkeypatch.setattr(console, "log_to", lambda *_: None)
    monkeypatch.setattr(cli, "Workers", Workers)
    cli.serve()
    [(instance, note)] = found
    assert note == Note(f"http://127.0.0.1:{chosen.PORT}", str(instance))
    assert read_note(tmp_path / "data") is None
