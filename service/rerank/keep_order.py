"""No reranker: the order of the search stands."""

from collections.abc import Sequence

from service.model import ComponentState

NOT_RERANKED = "Passages stand in the order of the search, not reranked: no cross-encoder is loaded (see /readyz)."


class KeepOrder:
    """Scores that fall with the rank and judge nothing. `reason` says why no cross-encoder is at work."""

    name = "keep-order"

    def __init__(self, reason: str = "") -> None:
        self._reason = reason

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:  # noqa: ARG002 (the port's signature)
        """Return 1/(1 + rank) per text: 0..1, highest first, in the order given."""
        return [1 / (1 + rank) for rank in range(len(texts))]

    def state(self) -> ComponentState:
        """The warning is for readers, the reason for the operator."""
        detail = f"{self.name}: {self._reason}" if self._reason else self.name
        return ComponentState(name="reranker", ok=True, detail=detail, warning=NOT_RERANKED)
