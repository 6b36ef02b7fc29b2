"""Small passages and a deterministic embedder for the contracts: no weights; a synonym has the same meaning."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from service.model import Kind, Passage, Span, TableRow

SYNONYMS = {"cash": "money", "funds": "money"}


class WordEmbedder:
    """Adds up one fixed random direction per word, so texts that share words or synonyms are near each other."""

    dim = 32

    def __init__(self, identity: str = "words@1") -> None:
        self.identity = identity
        self.broken = False

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.broken:
            raise RuntimeError("the embedder broke")
        return np.array([self._vector(text) for text in texts], dtype=np.float32).reshape(len(texts), self.dim)

    def _vector(self, text: str) -> NDArray[np.float32]:
        words = [SYNONYMS.get(word, word) for word in text.lower().split()] or [""]
        total = np.sum([self._direction(word) for word in words], axis=0)
        return np.asarray(total / np.linalg.norm(total), dtype=np.float32)

    def _direction(self, word: str) -> NDArray[np.float64]:
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4])
        return np.random.default_rng(seed).normal(size=self.dim)


def passage(
    text: str,
    *,
    passage_id: str = "",
    source: str = "rulebook",
    address: str = "/rules/1.html",
    kind: Kind = "official",
    sha256: str = "a" * 64,
    page: int | None = None,
) -> Passage:
    return Passage(
        passage_id=passage_id or f"{source}{address}#{text}",
        sha256=sha256,
        source=source,
        kind=kind,
        title="Client Money Rules",
        address=address,
        section="3.1.2",
        headings=("Client money", "Segregation"),
        context="Client Money Rules > Segregation",
        text=text,
        spans=(Span(0, 0, len(text)), Span(2, 5, 9)),
        fetched_at="2025-01-02T03:04:05Z",
        page=page,
        rows=(TableRow(0, len(text), 1, True),),
    )
