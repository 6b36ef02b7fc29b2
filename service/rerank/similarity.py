"""Cosine similarity of embeddings, in the shape of a reranker: Quote's scorer where no cross-encoder is there."""

from collections.abc import Sequence

from service.knowledge.embed import Embedder
from service.model import ComponentState


class EmbeddingSimilarity:
    """Scores are the cosine of question and text, negative values cut to 0: 0..1, not calibrated."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.name = f"similarity of {embedder.name}"

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        if not texts:
            return []
        vectors = await self._embedder.embed([query, *texts])
        cosines = vectors[1:] @ vectors[0]
        return [min(1.0, max(0.0, float(cosine))) for cosine in cosines]

    def state(self) -> ComponentState:
        return ComponentState("support", True, self.name)
