"""The setting that chooses the reranker. What cannot be loaded is replaced aloud, never silently."""

import logging
from pathlib import Path

from service.errors import ModelFilesError
from service.ports import Reranker
from service.rerank.cross_encoder import CrossEncoderReranker
from service.rerank.keep_order import KeepOrder
from service.rerank.shipped import NAME, load_shipped
from service.weights import name_of

NAMESAKE = f"{NAME} (another model)"
"""What a model is called whose folder has the name of the one that ships."""

logger = logging.getLogger(__name__)


def load_reranker(model: str, *, base: Path, threads: int, max_concurrent: int) -> Reranker:
    """Return the cross-encoder `model`, or `KeepOrder` for "", "keep-order" and what cannot be loaded. Blocks.

    `base` is the folder of the verified weights that the shipped adapter is merged onto. The one that ships is always
    there: where its files are damaged nothing can be scored, and no order stands in for it. Raises `ModelFilesError`.
    """
    if model in ("", KeepOrder.name):
        return KeepOrder("no reranker is configured")
    if model == NAME:
        return load_shipped(base, threads=threads, max_concurrent=max_concurrent)
    try:
        name = NAMESAKE if name_of(model) == NAME else ""
        return CrossEncoderReranker.load(model, threads=threads, max_concurrent=max_concurrent, name=name)
    except ModelFilesError as error:
        logger.warning("reranker off: %s", error)
        return KeepOrder(str(error).rstrip("."))
