"""The store as all designs read it: the product's knowledge base and reranker, each question looked up once."""

import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from service.model import Candidate, ComponentState, Passage, Scope
from service.ports import KnowledgeBase, Reranker
from service.ranking import combined_order

Encode = Callable[[list[str]], NDArray[np.float32]]
"""Vectors of texts: float32 (n, dim), unit length."""


class KeptScores:
    """A reranker whose scores are kept in a file: all designs, models and error rates ask about the same pairs."""

    def __init__(self, scorer: Reranker, path: Path) -> None:
        self._scorer, self._path = scorer, path
        self._known: dict[str, float] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        self.name = scorer.name

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """As the port says; a pair that was scored before is not scored again."""
        keys = [_key(self.name, query, text) for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        found = await self._scorer.scores(query, list(new.values())) if new else []
        self._known.update(zip(new, found, strict=True))
        return [self._known[key] for key in keys]

    def save(self) -> None:
        self._path.write_text(json.dumps(self._known), encoding="utf-8")

    def state(self) -> ComponentState:
        return self._scorer.state()


def _key(*parts: str) -> str:
    return sha256("\0".join(parts).encode()).hexdigest()[:24]


class Shelf:
    """Two ways to cut what one search of the product's store brings. `candidates`: as many as the product reads."""

    def __init__(self, knowledge: KnowledgeBase, reranker: Reranker, encode: Encode, candidates: int) -> None:
        self._knowledge, self._reranker, self._encode = knowledge, reranker, encode
        self._candidates = candidates
        self._vectors: dict[str, NDArray[np.float32]] = {}

    async def search(self, query: str) -> list[Candidate]:
        return await self._knowledge.search(query, limit=self._candidates, scope=Scope())

    async def by_cosine(self, query: str, k: int, floor: float = -1.0) -> list[Candidate]:
        """The dense path: at most `k` passages whose cosine with the query is at least `floor`, best first."""
        found = await self.search(query)
        texts = [candidate.passage.indexed_text for candidate in found]
        cosines = self._embedded(texts) @ self._embedded([query])[0] if found else []
        scored = [Candidate(c.passage, float(cosine)) for c, cosine in zip(found, cosines, strict=True)]
        return [c for c in sorted(scored, key=lambda c: -c.score) if c.score >= floor][:k]

    async def by_rerank(self, question: str, k: int) -> list[Candidate]:
        """The `k` best of search and reranker together, as the product orders them. Scores are the reranker's, 0..1."""
        found = await self.search(question)
        scores = await self._reranker.scores(question, [candidate.passage.indexed_text for candidate in found])
        return [Candidate(found[i].passage, scores[i]) for i in combined_order(scores)][:k]

    def _embedded(self, texts: Sequence[str]) -> NDArray[np.float32]:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            self._vectors.update(zip(new, self._encode(new), strict=True))
        return np.stack([self._vectors[text] for text in texts])


class SearchedOnce:
    """A knowledge base that is asked each query once, whatever the number of designs that ask it."""

    def __init__(self, knowledge: KnowledgeBase) -> None:
        self._knowledge = knowledge
        self._found: dict[tuple[str, int, Scope], list[Candidate]] = {}

    async def search(self, query: str, *, limit: int, scope: Scope) -> list[Candidate]:
        key = (query, limit, scope)
        if key not in self._found:
            self._found[key] = await self._knowledge.search(query, limit=limit, scope=scope)
        return self._found[key]

    async def get(self, passage_id: str) -> Passage | None:
        return await self._knowledge.get(passage_id)

    async def documents(self, source: str) -> dict[str, str]:
        return await self._knowledge.documents(source)

    async def replace(self, source: str, address: str, passages: Sequence[Passage]) -> None:
        await self._knowledge.replace(source, address, passages)

    async def remove(self, source: str, address: str) -> None:
        await self._knowledge.remove(source, address)

    async def count(self) -> int:
        return await self._knowledge.count()

    async def state(self) -> ComponentState:
        return await self._knowledge.state()
