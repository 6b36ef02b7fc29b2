import logging
from pathlib import Path

import pytest

from service.errors import ModelFilesError
from service.ports import Reranker
from service.rerank.choose import load_reranker
from service.rerank.cross_encoder import CrossEncoderReranker
from service.rerank.keep_order import KeepOrder
from service.rerank.shipped import NAME


async def test_scores_fall_with_the_rank_and_stay_within_0_and_1() -> None:
    reranker: Reranker = KeepOrder()
    scores = await reranker.scores("money", [f"text {n}" for n in range(40)])
    assert scores[0] == 1
    assert scores == sorted(set(scores), reverse=True)
    assert scores[-1] > 0


async def test_no_texts_get_no_scores() -> None:
    assert await KeepOrder().scores("money", []) == []


def test_the_state_warns_that_nothing_is_reranked_and_why() -> None:
    state = KeepOrder("the model could not be loaded").state()
    assert state.ok
    assert "not reranked" in state.warning
    assert state.detail == "keep-order: the model could not be loaded"
    assert KeepOrder().state().detail == "keep-order"


@pytest.mark.parametrize("model", ["", "keep-order"])
def test_an_installation_without_a_reranker_keeps_the_order_and_says_so(model: str) -> None:
    reranker = load_reranker(model, base=Path("never-read"), threads=1, max_concurrent=1)
    assert reranker.name == "keep-order"
    assert "no reranker is configured" in reranker.state().detail


def test_the_reranker_that_ships_is_not_replaced_where_its_files_are_damaged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def damaged(*_: object, **__: object) -> None:
        raise ModelFilesError("The adapter is not the one that was shipped.")

    monkeypatch.setattr("service.rerank.choose.load_shipped", damaged)
    with pytest.raises(ModelFilesError, match="not the one that was shipped"):
        load_reranker(NAME, base=Path("never-read"), threads=1, max_concurrent=1)
    assert "reranker off" not in caplog.text


def test_a_model_that_cannot_be_loaded_is_replaced_aloud(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def cannot(*_: object, **__: object) -> None:
        raise ModelFilesError("The model 'ours' cannot be loaded.")

    monkeypatch.setattr(CrossEncoderReranker, "load", cannot)
    with caplog.at_level(logging.WARNING):
        reranker = load_reranker("ours", base=Path("never-read"), threads=1, max_concurrent=1)
    assert reranker.name == "keep-order"
    assert "'ours' cannot be loaded" in reranker.state().detail
    assert "'ours' cannot be loaded" in caplog.text
