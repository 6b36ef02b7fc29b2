"""The cross-encoder adapter on a tiny random BERT that the tests make."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from evals.house import remember_all
from service.errors import ModelFilesError
from service.models import load_the_scorer
from service.ports import Reranker
from service.rerank.choose import load_reranker
from service.rerank.cross_encoder import BATCH_SIZE, REMEMBERED, CrossEncoderReranker
from service.rerank.keep_order import KeepOrder
from service.settings import Settings

pytestmark = pytest.mark.slow

WORDS = ["client", "money", "is", "held", "apart", "zebra", "rule", "a", "the", "of"]
FORTY = [f"client money {n}" for n in range(40)]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]


def write_model(folder: Path, *, num_labels: int = 1, logit_scale: float = 1.0) -> Path:
    """Write a BERT with one layer of 32 and random weights from a fixed seed."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

    torch.manual_seed(0)
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY))
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=128,
    )
    config.num_labels = num_labels
    bert: Any = BertForSequenceClassification  # mypy takes its constructor for typed or not, as its cache has it
    model = bert(config)
    model.classifier.weight.data.normal_(0, logit_scale)
    model.save_pretrained(folder)
    BertTokenizer(str(folder / "vocab.txt"), model_max_length=128).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny-ranker")


@pytest.fixture
def reranker(folder: Path) -> CrossEncoderReranker:
    return CrossEncoderReranker.load(str(folder), threads=1, max_concurrent=2)


class Gate:
    """Holds each batch until the test lets it go, and counts the batches that have begun."""

    def __init__(self, reranker: CrossEncoderReranker, monkeypatch: pytest.MonkeyPatch) -> None:
        self._predict = reranker._predict_batch
        self._begun = threading.Semaphore(0)
        self._permits = threading.Semaphore(0)
        self.sizes: list[int] = []
        self.in_time: list[bool] = []
        monkeypatch.setattr(reranker, "_predict_batch", self._wait_and_predict)

    def _wait_and_predict(self, query: str, texts: list[str]) -> list[float]:
        self.sizes.append(len(texts))
        self._begun.release()
        self.in_time.append(self._permits.acquire(timeout=10))
        return self._predict(query, texts)

    async def batch_begun(self) -> None:
        assert await asyncio.to_thread(self._begun.acquire, timeout=10)

    def let_go(self, batches: int) -> None:
        self._permits.release(batches)


async def test_each_text_has_the_score_it_has_alone_in_the_order_given(reranker: CrossEncoderReranker) -> None:
    texts = ["zebra", "client money is held apart " * 8, "a rule of the client", "money"] * 5
    scores = await reranker.scores("client money", texts)
    fresh = CrossEncoderReranker(reranker._model, "one that remembers nothing", max_concurrent=1)
    alone = [(await fresh.scores("client money", [text]))[0] for text in texts[:4]]
    assert scores == pytest.approx(alone * 5, abs=1e-5)
    assert len({round(score, 6) for score in alone}) == 4


async def test_scores_are_a_sigmoid_even_of_great_logits(tmp_path: Path) -> None:
    """U18."""
    import torch

    folder = write_model(tmp_path / "loud", logit_scale=100)
    reranker = CrossEncoderReranker.load(str(folder), threads=1, max_concurrent=1)
    logits = reranker._model.predict([("client", word) for word in WORDS], activation_fn=torch.nn.Identity())
    scores = await reranker.scores("client", WORDS)
    assert max(abs(logits)) > 10
    assert all(0 <= score <= 1 for score in scores)
    assert scores == pytest.approx((1 / (1 + torch.exp(-torch.tensor(logits)))).tolist(), abs=1e-5)


async def test_no_texts_get_no_scores(reranker: CrossEncoderReranker) -> None:
    assert await reranker.scores("money", []) == []


async def test_a_single_text_gets_a_single_score(reranker: CrossEncoderReranker) -> None:
    """U18: one passage."""
    assert len(await reranker.scores("money", ["client money"])) == 1


@pytest.mark.parametrize("text", ["", "unknown words only", "money " * 5_000])
async def test_odd_texts_get_a_score_too(reranker: CrossEncoderReranker, text: str) -> None:
    [score] = await reranker.scores("money", [text])
    assert 0 <= score <= 1


async def test_the_event_loop_runs_on_during_a_rerank_of_40_texts(
    reranker: CrossEncoderReranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(reranker, monkeypatch)
    ranking = asyncio.create_task(reranker.scores("money", FORTY))
    for _ in range(5):
        await gate.batch_begun()
        gate.let_go(1)  # only a running event loop comes here while the batch waits
    assert len(await ranking) == 40
    assert gate.in_time == [True] * 5
    assert gate.sizes == [BATCH_SIZE] * 5


async def test_a_cancelled_rerank_ends_its_thread_within_a_batch(
    reranker: CrossEncoderReranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(reranker, monkeypatch)
    ranking = asyncio.create_task(reranker.scores("money", FORTY))
    await gate.batch_begun()
    ranking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ranking
    gate.let_go(5)
    await asyncio.get_running_loop().shutdown_default_executor()  # waits for the thread
    assert gate.sizes == [BATCH_SIZE]


async def test_no_more_reranks_compute_at_once_than_allowed(
    reranker: CrossEncoderReranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(reranker, monkeypatch)
    rankings = [asyncio.create_task(reranker.scores("money", ["client money"])) for _ in range(4)]
    await gate.batch_begun()
    await gate.batch_begun()
    rankings[0].cancel()  # leaves its thread at work, which keeps its slot
    await asyncio.sleep(0.05)
    assert len(gate.sizes) == 2
    gate.let_go(4)
    await asyncio.gather(*rankings, return_exceptions=True)
    assert len(gate.sizes) == 4


def test_one_reranker_serves_several_event_loops(reranker: CrossEncoderReranker) -> None:
    async def crowd() -> Sequence[list[float]]:
        return await asyncio.gather(*(reranker.scores("money", ["client money"]) for _ in range(6)))

    assert asyncio.run(crowd()) == asyncio.run(crowd())


def test_the_state_names_the_model_and_its_checksum(reranker: CrossEncoderReranker) -> None:
    port: Reranker = reranker
    state = port.state()
    assert state.ok
    assert state.detail == f"tiny-ranker sha256:{reranker.sha256[:12]}"
    assert state.warning == ""


def test_other_weights_have_another_checksum(reranker: CrossEncoderReranker, tmp_path: Path) -> None:
    other = CrossEncoderReranker.load(str(write_model(tmp_path / "m", logit_scale=2)), threads=1, max_concurrent=1)
    assert other.sha256 != reranker.sha256


def test_a_classifier_with_several_outputs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFilesError, match="3 scores per pair"):
        CrossEncoderReranker.load(str(write_model(tmp_path / "nli", num_labels=3)), threads=1, max_concurrent=1)


def without_a_head(folder: Path) -> Path:
    from safetensors.torch import load_file, save_file

    tensors = load_file(write_model(folder) / "model.safetensors")
    kept = {name: tensor for name, tensor in tensors.items() if not name.startswith("classifier")}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def with_nan(folder: Path) -> Path:
    from safetensors.torch import load_file, save_file

    tensors = load_file(write_model(folder) / "model.safetensors")
    tensors["classifier.bias"][0] = float("nan")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize(
    ("spoilt", "said"), [(without_a_head, "no trained weights for classifier"), (with_nan, "are no numbers")]
)
def test_a_model_that_cannot_rank_is_replaced_at_load_with_the_reason(
    tmp_path: Path, spoilt: Callable[[Path], Path], said: str
) -> None:
    reranker = load_reranker(str(spoilt(tmp_path / "m")), base=Path("never-read"), threads=1, max_concurrent=1)
    assert reranker.name == "keep-order"
    assert said in reranker.state().detail


async def test_a_model_whose_scores_are_no_numbers_is_refused(
    reranker: CrossEncoderReranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reranker._model, "predict", lambda pairs, **_: [float("nan")] * len(pairs))
    with pytest.raises(ModelFilesError, match="no numbers"):
        await reranker.scores("money", ["client money"])


@pytest.mark.parametrize("model", ["nobody/has-this-ranker", "/no/such/folder"])
def test_a_model_that_cannot_be_had_is_replaced_and_named(model: str) -> None:
    reranker = load_reranker(model, base=Path("never-read"), threads=1, max_concurrent=1)
    assert reranker.name == "keep-order"
    assert Path(model).name in reranker.state().detail


def test_a_folder_is_chosen_by_its_path(folder: Path) -> None:
    assert load_reranker(str(folder), base=Path("never-read"), threads=1, max_concurrent=1).name == "tiny-ranker"


def test_a_folder_called_like_the_shipped_one_neither_passes_for_it_nor_scores_for_quote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    namesake = load_reranker(
        str(write_model(tmp_path / "gatehouse-minilm")), base=Path("never-read"), threads=1, max_concurrent=1
    )
    assert namesake.name == "gatehouse-minilm (another model)"
    assert "another model" in namesake.state().detail
    shipped = KeepOrder("stands for the shipped one")
    monkeypatch.setattr("service.models.load_shipped", lambda *_, **__: shipped)
    assert load_the_scorer(Settings(), namesake) is shipped


async def test_a_pair_is_computed_once_however_often_it_is_asked_for(
    reranker: CrossEncoderReranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(reranker, monkeypatch)
    gate.let_go(3)
    first = await reranker.scores("client money", ["a rule", "zebra", "a rule"])
    again = await reranker.scores("client money", ["zebra", "a rule", "of the client"])
    other = await reranker.scores("zebra", ["a rule"])
    assert (first[0], again[:2]) == (first[2], [first[1], first[0]])
    assert other != first[:1]
    assert gate.sizes == [2, 1, 1]


async def test_only_so_many_scores_are_kept_and_the_latest_asked_for_stay(
    reranker: CrossEncoderReranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    reranker.remembers = 2
    gate = Gate(reranker, monkeypatch)
    gate.let_go(9)
    for texts in (["a rule", "zebra"], ["a rule"], ["money"], ["a rule"], ["zebra"]):
        await reranker.scores("client", texts)
    assert gate.sizes == [2, 1, 1]


async def test_an_offline_run_scores_each_pair_once_however_many_there_are(
    reranker: CrossEncoderReranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reranker, "_predict_batch", lambda _query, texts: [0.5] * len(texts))
    remember_all(reranker, KeepOrder())
    texts = [f"rule {n}" for n in range(REMEMBERED + 1)]
    await reranker.scores("client", texts)
    gate = Gate(reranker, monkeypatch)
    await reranker.scores("client", texts)
    assert gate.sizes == []


async def test_a_stopped_call_leaves_no_score_behind(
    reranker: CrossEncoderReranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["zebra " * n for n in range(1, BATCH_SIZE + 2)]
    whole = await CrossEncoderReranker(reranker._model, "twin", max_concurrent=1).scores("client", texts)
    gate = Gate(reranker, monkeypatch)
    asking = asyncio.create_task(reranker.scores("client", texts))
    await gate.batch_begun()
    asking.cancel()
    gate.let_go(4)
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await reranker.scores("client", texts) == pytest.approx(whole, abs=1e-5)
