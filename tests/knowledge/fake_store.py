"""A knowledge base in a dictionary, for tests of what writes to one."""

from collections.abc import Sequence

from service.errors import KnowledgeBaseError
from service.model import Candidate, ComponentState, Passage, Scope
from service.ports import KnowledgeBase


class MemoryKnowledge:
    """Keeps passages by (source, address) and what was called, in order. `fails_for` names addresses that fail."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], tuple[Passage, ...]] = {}
        self.calls: list[tuple[str, str]] = []
        self.fails_for: set[str] = set()

    async def search(self, query: str, *, limit: int, scope: Scope) -> list[Candidate]:
        words = set(query.lower().split())
        passages = [passage for of in self.held.values() for passage in of if scope.admits(passage)]
        found = [Candidate(passage, len(words & set(passage.text.lower().split()))) for passage in passages]
        return sorted(found, key=lambda candidate: -candidate.score)[:limit]

    async def get(self, passage_id: str) -> Passage | None:
        return next((item for of in self.held.values() for item in of if item.passage_id == passage_id), None)

    async def documents(self, source: str) -> dict[str, str]:
        return {address: of[0].sha256 for (name, address), of in self.held.items() if name == source}

    async def replace(self, source: str, address: str, passages: Sequence[Passage]) -> None:
        self.calls.append(("replace", address))
        if address in self.fails_for:
            raise KnowledgeBaseError("Milvus does not answer")
        self.held[source, address] = tuple(passages)

    async def remove(self, source: str, address: str) -> None:
        self.calls.append(("remove", address))
        self.held.pop((source, address), None)

    async def count(self) -> int:
        return sum(len(of) for of in self.held.values())

    async def state(self) -> ComponentState:
        return ComponentState("knowledge", True, "in memory")


def as_port(knowledge: MemoryKnowledge) -> KnowledgeBase:
    """Let mypy hold the fake against the port."""
    return knowledge
