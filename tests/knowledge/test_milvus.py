"""The Milvus adapter beyond the contract: opening, locks, event loops, faults, and the rows and filters it writes."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymilvus import MilvusException

from service.errors import EmbeddingMismatch, KnowledgeBaseError, StoreLocked
from service.knowledge import milvus, milvus_rows
from service.knowledge.lite_store import LiteStore
from service.knowledge.milvus import MilvusKnowledge
from service.knowledge.milvus_rows import (
    CUT,
    Version,
    literal,
    passage_of,
    row_of,
    scope_filter,
    version_of,
    whole_version,
)
from service.knowledge.milvus_schema import Capability, has_bm25
from service.knowledge.terms import stem, terms_of
from service.model import Scope
from tests.contracts.passages import WordEmbedder, passage
from tests.deploy.processes import SharedMilvus

EVERYTHING = Scope()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "data" / "milvus.db")


@pytest.fixture
async def knowledge(path: str) -> AsyncIterator[MilvusKnowledge]:
    store = await MilvusKnowledge.open(path, embedder=WordEmbedder())
    yield store
    await store.close()


async def ingest_and_search(path: str, text: str) -> list[str]:
    knowledge = await MilvusKnowledge.open(path, embedder=WordEmbedder())
    try:
        await knowledge.replace("rulebook", "/rules/1.html", [passage(text)])
        return [c.passage.text for c in await knowledge.search(text, limit=5, scope=EVERYTHING)]
    finally:
        await knowledge.close()


# Opening and closing


@pytest.mark.slow
async def test_a_closed_store_opens_again_with_its_rows(path: str) -> None:
    await ingest_and_search(path, "money")
    again = await MilvusKnowledge.open(path, embedder=WordEmbedder())
    try:
        assert [c.passage for c in await again.search("money", limit=5, scope=EVERYTHING)] == [passage("money")]
    finally:
        await again.close()
        await again.close()


@pytest.mark.slow
async def test_a_store_that_is_open_in_this_process_is_locked(knowledge: MilvusKnowledge, path: str) -> None:
    with pytest.raises(StoreLocked, match="gatehouse ask"):
        await MilvusKnowledge.open(path, embedder=WordEmbedder())
    assert await knowledge.count() == 0


@pytest.mark.slow
@pytest.mark.usefixtures("knowledge")
def test_a_second_process_is_told_that_the_store_is_locked(path: str) -> None:
    code = (
        "import asyncio, sys\n"
        "from service.knowledge.milvus import MilvusKnowledge\n"
        "from tests.contracts.passages import WordEmbedder\n"
        "asyncio.run(MilvusKnowledge.open(sys.argv[1], embedder=WordEmbedder()))\n"
    )
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code, path], cwd=root, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "StoreLocked: Another process has the Milvus Lite store open" in done.stderr


@pytest.mark.slow
async def test_another_embedding_model_is_refused_and_the_store_let_go(path: str) -> None:
    await ingest_and_search(path, "money")
    way_out = r"Set EMBEDDING_MODEL back .*MILVUS_COLLECTION to another name.*DATA_DIR to an empty.*gatehouse ingest"
    with pytest.raises(EmbeddingMismatch, match=rf"words@1.*EMBEDDING_MODEL is now words@2.*{way_out}"):
        await MilvusKnowledge.open(path, embedder=WordEmbedder("words@2"))
    assert await ingest_and_search(path, "money") == ["money"]


@pytest.mark.slow
async def test_another_collection_takes_another_embedding_model(path: str) -> None:
    await ingest_and_search(path, "money")
    other = await MilvusKnowledge.open(path, collection="passages_2", embedder=WordEmbedder("words@2"))
    try:
        assert await other.count() == 0
    finally:
        await other.close()


@pytest.mark.slow
async def test_a_path_that_is_a_file_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "milvus.db").write_text("an old store")
    with pytest.raises(KnowledgeBaseError, match="cannot be opened"):
        await MilvusKnowledge.open(str(tmp_path / "milvus.db"), embedder=WordEmbedder())


@pytest.mark.slow
def test_the_store_is_reached_by_a_private_socket_only(tmp_path: Path) -> None:
    store = LiteStore.start(str(tmp_path / "milvus.db"))
    try:
        socket_path = Path(store.address.removeprefix("unix:"))
        assert socket_path.is_socket()
        assert os.stat(socket_path.parent).st_mode & 0o077 == 0
    finally:
        store.stop()
    assert not socket_path.parent.exists()


@pytest.mark.slow
def test_one_store_serves_two_event_loops_one_after_the_other(path: str) -> None:
    """D10: an event loop that is closed takes no client along."""
    assert asyncio.run(ingest_and_search(path, "first")) == ["first"]
    assert asyncio.run(ingest_and_search(path, "second")) == ["second"]


@pytest.mark.slow
def test_two_event_loops_work_side_by_side(tmp_path: Path) -> None:
    found: dict[str, list[str]] = {}

    def live(name: str) -> None:
        found[name] = asyncio.run(ingest_and_search(str(tmp_path / name), name))

    threads = [threading.Thread(target=live, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert found == {"one": ["one"], "two": ["two"]}


# A served store, and one that does not answer


@pytest.mark.slow
async def test_D10_a_server_that_died_and_came_back_is_used_again_by_the_same_client(tmp_path: Path) -> None:
    server = SharedMilvus(tmp_path)
    await asyncio.to_thread(server.start)
    knowledge = await MilvusKnowledge.open(server.url, embedder=WordEmbedder(), timeout_s=5)
    try:
        await knowledge.replace("rulebook", "/rules/1.html", [passage("money")])
        await asyncio.to_thread(server.stop, signal.SIGKILL)
        with pytest.raises(KnowledgeBaseError):
            await knowledge.search("money", limit=5, scope=EVERYTHING)
        await asyncio.to_thread(server.start)
        assert await searched_again(knowledge) == ["money"]
        assert await knowledge.count() == 1
    finally:
        await knowledge.close()
        await asyncio.to_thread(server.stop)


async def searched_again(knowledge: MilvusKnowledge) -> list[str]:
    """gRPC waits between two attempts to connect."""
    for _ in range(60):
        try:
            return [c.passage.text for c in await knowledge.search("money", limit=5, scope=EVERYTHING)]
        except KnowledgeBaseError:
            await asyncio.sleep(0.5)
    raise AssertionError("the server was not used again")


@pytest.mark.slow
async def test_two_clients_share_a_served_store(tmp_path: Path) -> None:
    store = LiteStore.start(str(tmp_path / "milvus.db"))
    served = f"{store.address[:5]}//{store.address[5:]}"
    writer = await MilvusKnowledge.open(served, embedder=WordEmbedder())
    reader = await MilvusKnowledge.open(served, embedder=WordEmbedder())
    try:
        await writer.replace("rulebook", "/rules/1.html", [passage("money")])
        assert await reader.count() == 1
    finally:
        await reader.close()
        await writer.close()
        await asyncio.to_thread(store.stop)


@pytest.mark.slow
async def test_a_server_that_is_not_there_is_a_knowledge_base_error() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(KnowledgeBaseError, match="Milvus"):
        await MilvusKnowledge.open(f"http://127.0.0.1:{port}", embedder=WordEmbedder(), timeout_s=1)


@pytest.mark.slow
async def test_a_server_that_hangs_is_a_knowledge_base_error() -> None:
    """D10."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(KnowledgeBaseError, match="Milvus"):
            await MilvusKnowledge.open(f"http://127.0.0.1:{port}", embedder=WordEmbedder(), timeout_s=1)


@pytest.mark.slow
async def test_calls_after_closing_are_knowledge_base_errors(path: str) -> None:
    knowledge = await MilvusKnowledge.open(path, embedder=WordEmbedder())
    await knowledge.close()
    with pytest.raises(KnowledgeBaseError):
        await knowledge.search("money", limit=5, scope=EVERYTHING)
    state = await knowledge.state()
    assert not state.ok
    assert "Milvus" in state.detail


class FaultyClient:
    """A client of which every call does as told."""

    def __init__(self, fault: BaseException | None) -> None:
        self.fault = fault

    def __getattr__(self, name: str) -> Any:
        async def call(*_: object, **__: object) -> list[dict[str, int]]:
            if self.fault is None:
                await asyncio.Event().wait()
            elif name != "close":
                raise self.fault
            return []

        return call


def knowledge_on(client: Any, *, bm25: bool = True, timeout_s: float = 10) -> MilvusKnowledge:
    can = Capability("2.3.5", bm25=bm25)
    return MilvusKnowledge(client, can, collection="passages", embedder=WordEmbedder(), timeout_s=timeout_s)


@pytest.mark.parametrize("fault", [MilvusException(message=""), grpc.RpcError(), grpc.aio.UsageError("closed")])
async def test_every_fault_of_the_client_is_a_knowledge_base_error_with_safe_words(fault: Exception) -> None:
    knowledge = knowledge_on(FaultyClient(fault))
    with pytest.raises(KnowledgeBaseError, match=r"^Milvus does not answer, or refused the request\.$"):
        await knowledge.search("money", limit=5, scope=EVERYTHING)


async def test_a_client_that_hangs_is_given_up_after_the_timeout() -> None:
    knowledge = knowledge_on(FaultyClient(None), timeout_s=0.01)
    with pytest.raises(KnowledgeBaseError, match=r"did not answer within 0\.01 s"):
        await knowledge.count()


async def test_a_cancelled_search_stays_cancelled() -> None:
    search = asyncio.create_task(knowledge_on(FaultyClient(None)).search("money", limit=5, scope=EVERYTHING))
    await asyncio.sleep(0.01)
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search


async def test_a_call_that_its_closed_connection_cancels_is_a_knowledge_base_error() -> None:
    knowledge = knowledge_on(FaultyClient(asyncio.CancelledError()))
    with pytest.raises(KnowledgeBaseError, match="closed"):
        await knowledge.count()


async def test_nothing_is_asked_of_the_store_when_the_scope_admits_nothing() -> None:
    knowledge = knowledge_on(FaultyClient(MilvusException(message="asked")))
    assert await knowledge.search("money", limit=5, scope=Scope(sources=frozenset())) == []


class LyingClient:
    """A store that ignores its filter, and has dense vectors only."""

    def __init__(self) -> None:
        self.searched: dict[str, Any] = {}

    async def search(self, _: str, __: object, **asked: Any) -> list[list[dict[str, Any]]]:
        self.searched = asked
        rows = [row_of(passage(source, source=source), parts=1, with_terms=False) for source in ("mine", "theirs")]
        return [[{"entity": row, "distance": 0.5} for row in rows]]

    async def query(self, *_: object, **__: object) -> list[dict[str, int]]:
        return [{"count(*)": 2}]


async def test_what_the_store_returns_outside_the_scope_is_dropped() -> None:
    knowledge = knowledge_on(LyingClient(), bm25=False)
    found = await knowledge.search("money", limit=5, scope=Scope(sources=frozenset({"mine"})))
    assert [c.passage.source for c in found] == ["mine"]


async def test_a_server_without_bm25_is_searched_by_meaning_alone_and_says_so() -> None:
    client = LyingClient()
    knowledge = knowledge_on(client, bm25=False)
    await knowledge.search("money", limit=5, scope=EVERYTHING)
    assert client.searched["anns_field"] == "dense"
    state = await knowledge.state()
    assert state.ok
    assert "2.5" in state.warning


@pytest.mark.parametrize(
    ("version", "bm25"),
    [
        ("2.3.5", False),
        ("v2.4.23", False),
        ("v2.5.0", True),
        ("2.6.1-dev", True),
        ("3.0", True),
        ("milvus_lite-3.2.2", True),
    ],
)
def test_bm25_came_with_server_2_5(version: str, bm25: bool) -> None:
    assert has_bm25(version) is bm25


# Large collections and broken replacements


@pytest.mark.slow
async def test_listing_documents_reads_every_page(knowledge: MilvusKnowledge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(milvus, "PAGE_ROWS", 3)
    monkeypatch.setattr(milvus, "DELETE_IDS", 2)
    for n in range(4):
        rows = [passage(f"{n} {part}", address=f"/{n}") for part in range(n + 1)]
        await knowledge.replace("rulebook", f"/{n}", rows)
    assert await knowledge.documents("rulebook") == {f"/{n}": "a" * 64 for n in range(4)}
    await knowledge.replace("rulebook", "/3", [passage("3 9", address="/3")])
    assert await knowledge.count() == 1 + 2 + 3 + 1


@pytest.mark.slow
async def test_a_large_document_is_written_in_several_requests(
    knowledge: MilvusKnowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(milvus_rows, "MAX_REQUEST_BYTES", 1_000)
    await knowledge.replace("rulebook", "/rules/1.html", [passage(f"money {n}") for n in range(25)])
    assert await knowledge.count() == 25
    assert await knowledge.documents("rulebook") == {"/rules/1.html": "a" * 64}


@pytest.mark.slow
async def test_a_replacement_that_was_cut_off_shows_as_a_changed_document(
    knowledge: MilvusKnowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    await knowledge.replace("rulebook", "/rules/1.html", [passage("one"), passage("two")])

    async def cut_off(*_: object) -> None:
        raise KnowledgeBaseError("gone")

    new = [passage("one", sha256="b" * 64)]
    with monkeypatch.context() as patch:
        patch.setattr(knowledge, "_delete_all_but", cut_off)
        with pytest.raises(KnowledgeBaseError):
            await knowledge.replace("rulebook", "/rules/1.html", new)
    assert await knowledge.documents("rulebook") == {"/rules/1.html": ""}
    await knowledge.replace("rulebook", "/rules/1.html", new)
    assert await knowledge.documents("rulebook") == {"/rules/1.html": "b" * 64}


@pytest.mark.slow
async def test_a_document_that_was_cut_by_an_earlier_version_shows_as_a_changed_one(
    knowledge: MilvusKnowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(milvus_rows, "CUT", CUT - 1)
        await knowledge.replace("rulebook", "/rules/1.html", [passage("one"), passage("two")])
    assert await knowledge.documents("rulebook") == {"/rules/1.html": ""}
    await knowledge.replace("rulebook", "/rules/1.html", [passage("one"), passage("two")])
    assert await knowledge.documents("rulebook") == {"/rules/1.html": "a" * 64}


@pytest.mark.slow
async def test_documents_replaced_at_once_are_all_stored(knowledge: MilvusKnowledge) -> None:
    replacing = [
        knowledge.replace("rulebook", f"/{n}", [passage(f"{n} {part}", address=f"/{n}") for part in range(3)])
        for n in range(20)
    ]
    await asyncio.gather(*replacing)
    assert await knowledge.count() == 60
    assert set((await knowledge.documents("rulebook")).values()) == {"a" * 64}


@pytest.mark.slow
async def test_many_written_rows_are_flushed_before_a_search(
    knowledge: MilvusKnowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(milvus, "UNFLUSHED_ROWS", 3)
    flushed: list[int] = []
    flush = knowledge._client.flush

    async def count_and_flush(collection: str) -> None:
        flushed.append(await knowledge.count())
        await flush(collection)

    monkeypatch.setattr(knowledge._client, "flush", count_and_flush)
    for n in range(3):
        await knowledge.replace("rulebook", f"/{n}", [passage(f"money {n}", address=f"/{n}")])
        found = await knowledge.search("money", limit=5, scope=EVERYTHING)
        assert len(found) == n + 1
    await knowledge.search("money", limit=5, scope=EVERYTHING)
    assert flushed == [3]


@pytest.mark.slow
async def test_the_event_loop_runs_on_while_a_store_is_opened(path: str) -> None:
    beats = 0

    async def heartbeat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0.001)

    beating = asyncio.create_task(heartbeat())
    knowledge = await MilvusKnowledge.open(path, embedder=WordEmbedder())
    beating.cancel()
    await knowledge.close()
    assert beats > 10


# Rows, filters, terms


def test_a_row_gives_back_its_passage() -> None:
    for stored in (passage("money", page=3), passage("money", page=None)):
        assert passage_of(row_of(stored, parts=1, with_terms=True)) == stored


def test_what_was_stored_before_the_rows_of_tables_were_is_read_without_them() -> None:
    row: dict[str, Any] = row_of(passage("money"), parts=1, with_terms=True)
    del row["details"]["rows"]
    assert passage_of(row) == replace(passage("money"), rows=())


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ([("a", 2, CUT), ("a", 2, CUT)], "a"),
        ([("a", 2, CUT)], ""),
        ([("a", 1, CUT), ("a", 1, CUT)], ""),
        ([("a", 1, CUT), ("b", 2, CUT)], ""),
        ([("a", 2, CUT), ("a", 2, CUT - 1)], ""),
        ([("a", 1, CUT - 1)], ""),
        ([("a", 1, None)], ""),
    ],
)
def test_a_document_is_whole_when_all_parts_of_one_version_are_there_and_cut_as_today(
    versions: list[Version], expected: str
) -> None:
    assert whole_version(versions) == expected


def test_a_row_says_which_version_of_its_document_it_belongs_to() -> None:
    row = row_of(passage("money"), parts=3, with_terms=True)
    assert version_of(row) == (passage("money").sha256, 3, CUT)
    assert version_of({**row, "details": {}})[2] is None


@given(st.text())
def test_a_literal_never_ends_before_its_last_quote(value: str) -> None:
    inside = literal(value)[1:-1]
    unescaped = inside.replace("\\\\", "").replace('\\"', "")
    assert '"' not in unescaped
    assert not unescaped.endswith("\\")
    assert "\n" not in inside
    assert "\r" not in inside


def test_a_scope_is_written_as_a_filter() -> None:
    assert scope_filter(Scope()) == ""
    assert scope_filter(Scope(sources=frozenset({"b", 'a"'}))) == 'source in ["a\\"", "b"]'
    assert (
        scope_filter(Scope(sources=frozenset({"a"}), kinds=frozenset({"web"}))) == 'source in ["a"] and kind in ["web"]'
    )
    assert scope_filter(Scope(sources=frozenset())) is None


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The firm’s Clients", "firm client"),
        ("CM 3.1.2 applies", "cm 3 1 2 apply n3x1x2"),
        ("anti-money laundering", "anti money launder"),
        ("what is it?", "what"),
        ("the of and", ""),
        ("", ""),
    ],
)
def test_terms_leave_out_stop_words_and_keep_rule_numbers_whole(text: str, terms: str) -> None:
    assert terms_of(text) == terms


@pytest.mark.parametrize(
    "forms",
    [
        ("reconcile", "reconciles", "reconciled", "reconciling"),
        ("policy", "policies"),
        ("stop", "stopped", "stopping", "stops"),
        ("segregate", "segregated", "segregating"),
        ("sell", "sells", "selling"),
        ("process", "processed", "processing"),
    ],
)
def test_the_forms_of_a_word_share_a_stem(forms: tuple[str, ...]) -> None:
    assert len({stem(form) for form in forms}) == 1


@pytest.mark.parametrize("word", ["bus", "this", "bed", "king", "gas", "need", "3", "règle"])
def test_a_short_word_is_not_cut_to_nothing(word: str) -> None:
    assert len(stem(word)) >= min(3, len(word))
