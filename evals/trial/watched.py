"""A store that is watched: what came back from it, and what came back that the run may not read."""

from collections.abc import Sequence

from service.model import Candidate, ComponentState, Passage, Scope
from service.ports import KnowledgeBase


class Watched:
    """A `KnowledgeBase` that passes everything on. Passages are remembered by (passage_id, sha256).

    `leaked` counts candidates outside the scope that was asked for: the product drops them again on the way out, so a
    broken filter shows in no answer, and has to be counted here.
    """

    def __init__(self, store: KnowledgeBase) -> None:
        self._store = store
        self.leaked = 0
        self.passages: dict[tuple[str, str], Passage] = {}

    async def search(self, query: str, *, limit: int, scope: Scope) -> list[Candidate]:
        found = await self._store.search(query, limit=limit, scope=scope)
        self.leaked += sum(not scope.admits(candidate.passage) for candidate in found)
        for candidate in found:
            self.passages[candidate.passage.passage_id, candidate.passage.sha256] = candidate.passage
        return found

    async def get(self, passage_id: str) -> Passage | None:
        return await self._store.get(passage_id)

    async def documents(self, source: str) -> dict[str, str]:
        return await self._store.documents(source)

    async def replace(self, source: str, address: str, passages: Sequence[Passage]) -> None:
        await self._store.replace(source, address, passages)

    async def remove(self, source: str, address: str) -> None:
        await self._store.remove(source, address)

    async def count(self) -> int:
        return await self._store.count()

    async def state(self) -> ComponentState:
        return await self._store.state()
