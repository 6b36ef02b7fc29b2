"""Vectors of many texts with the embedder under training or the base, kept on disk under what they were made from."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from service.knowledge.embed import Embedder
from service.knowledge.tuned import load_tuned

PIECE = 512


def passage_vectors(texts: Sequence[str], cache: Path, adapter: Path | None) -> NDArray[np.float32]:
    """float32 (n, dim), unit length. What was computed before a stop is not computed again."""
    digest = hashlib.sha256("\0".join(texts).encode())
    digest.update(b"" if adapter is None else adapter.with_suffix(".sha256").read_bytes())
    folder = cache / f"vectors-{digest.hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    embedder: Embedder | None = None
    # By length, so that a piece wastes little padding; put back in order at the end.
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    for start in range(0, len(order), PIECE):
        piece = folder / f"{start}.npy"
        if piece.is_file():
            continue
        embedder = embedder or load_tuned(threads=torch.get_num_threads(), adapter=adapter)
        vectors = embedder.encode([texts[i] for i in order[start : start + PIECE]])
        with piece.with_suffix(".part").open("wb") as file:
            np.save(file, vectors)
        os.replace(piece.with_suffix(".part"), piece)
    found = np.concatenate([np.load(folder / f"{start}.npy") for start in range(0, len(order), PIECE)])
    vectors = np.empty_like(found)
    vectors[order] = found
    return vectors
