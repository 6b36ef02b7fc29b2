"""The setting that chooses the reranker. What cannot be loaded is replaced aloud, never silently."""

import logging

from service.errors import ModelFilesError
from service.ports import Reranker
from service.rerank.cross_encoder import CrossEncoderReranker
from service.rerank.keep_order import KeepOrder

logger = logging.getLogger(__name__)


def load_reranker(model: str, *, threads: int, max_concurrent: int) -> Reranker:
    """Return the cross-encoder `model`, or `KeepOrder` for "", "keep-order" and what cannot be loaded. Blocks."""
    if model in ("", KeepOrder.name):
        return KeepOrder("no reranker is configured")
    try:
        return CrossEncoderReranker.load(model, threads=threads, max_concurrent=max_concurrent)
    except ModelFilesError as error:
        logger.warning("reranker off: %s", error)
        return KeepOrder(str(error).rstrip("."))
