"""Which sources a client has been shown, thread by thread: what it may open again.

What the index holds is open to every client, since any of them can retrieve it by asking. A page from the web, or one
that has left the index, belongs to those who were shown it.
"""

import hashlib
import json
from collections.abc import Iterable

from langgraph.store.base import BaseStore, PutOp

from service.model import StoredSource
from service.threads import ThreadRef

SHOWN = {"shown": True}


class Shown:
    """Rows in the store of threads, one for each source of a thread."""

    def __init__(self, store: BaseStore) -> None:
        self._store = store

    async def remember(self, ref: ThreadRef, sources: Iterable[StoredSource]) -> None:
        await self._put(ref, sources, SHOWN)

    async def forget(self, ref: ThreadRef, sources: Iterable[StoredSource]) -> None:
        """What another thread has shown as well stays visible."""
        await self._put(ref, sources, None)

    async def holds(self, client: str, passage_id: str, sha256: str) -> bool:
        """Was this version of the passage shown to the client? It takes as long for a foreign one as for an unknown."""
        return bool(await self._store.asearch(place(client, passage_id, sha256), limit=1))

    async def _put(self, ref: ThreadRef, sources: Iterable[StoredSource], value: dict[str, bool] | None) -> None:
        puts = [
            PutOp(place(ref.client, source["passage_id"], source["sha256"]), ref.key, value, index=False)
            for source in sources
        ]
        if puts:
            await self._store.abatch(puts)


def place(client: str, passage_id: str, sha256: str) -> tuple[str, ...]:
    """A namespace of the store, whatever characters the names hold."""
    named = hashlib.sha256(json.dumps([client, passage_id, sha256]).encode()).hexdigest()
    return ("shown", named)
