"""No reranker: the order of the search stands."""

from collections.abc import Sequence

from service.model import ComponentState


class KeepOrder:
    """Scores that fall with the rank and judge nothing. `reason` says why no cross-encoder is at work."""

    name = "keep-order"

    def __init__(self, reason: str = "") -> None:
        self._reason = reason

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:  # noqa: ARG002 (the port's signature)
        """Return 1/(1 + rank) per text: 0..1, highest first, in the order given."""
        return [1 / (1 + rank) for rank in range(len(texts))]

    def state(self) -> ComponentState:
        why = f": {self._reason}" if self._reason else ""
        return ComponentState(
            name="reranker",
            ok=True,
            detail=self.name,
            warning=f"Passages stand in the order of the search, not reranked, and their scores judge nothing{why}.",
        )
