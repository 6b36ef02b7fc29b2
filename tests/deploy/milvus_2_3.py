"""A real Milvus server of before 2.5, in a network of its own: `python -m tests.deploy.milvus_2_3 SERVER FOLDER`.

The server listens on every interface, so this is to be run where there is none but loopback (`unshare --net`). It does
with the store what the service does, and prints what came of it as JSON.
"""

import asyncio
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

from service.errors import KnowledgeBaseError
from service.knowledge.milvus import MilvusKnowledge
from service.model import Scope
from tests.contracts.passages import WordEmbedder, passage

PORT = 19530
STARTS_WITHIN_S = 120
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40


def raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP | IFF_RUNNING))


def only_loopback() -> bool:
    return [name for _, name in socket.if_nameindex()] == ["lo"]


async def opened(server: "subprocess.Popen[bytes]") -> MilvusKnowledge:
    """A server that is starting refuses connections, and then calls, for some seconds."""
    for _ in range(STARTS_WITHIN_S):
        assert server.poll() is None, "the server has ended"
        try:
            return await MilvusKnowledge.open(
                f"http://127.0.0.1:{PORT}", embedder=WordEmbedder(), timeout_s=STARTS_WITHIN_S
            )
        except KnowledgeBaseError:
            await asyncio.sleep(1)
    raise AssertionError("the server did not start")


async def tried(server: "subprocess.Popen[bytes]") -> dict[str, Any]:
    knowledge = await opened(server)

    async def found(query: str, scope: Scope | None = None) -> list[str]:
        return [c.passage.text for c in await knowledge.search(query, limit=5, scope=scope or Scope())]

    async def put(address: str, *texts: str, source: str = "rules") -> None:
        pieces = [passage(text, source=source, address=address) for text in texts]
        await knowledge.replace(source, address, pieces)

    try:
        state = await knowledge.state()
        await put("/1.html", "money must be kept apart", "a second paragraph of money")
        await put("/2.html", "complaints within eight weeks")
        await put("/3.html", "notes on money", source="notes")
        twice = [await knowledge.count()]
        await put("/1.html", "money must be kept apart", "a second paragraph of money")
        twice.append(await knowledge.count())
        meaning = await found("cash must be kept apart")
        scoped = await found("money", Scope(sources=frozenset({"notes"})))
        nothing = await found("money", Scope(sources=frozenset()))
        await put("/1.html", "money must be kept apart")
        shorter = sorted(await found("money"))
        await knowledge.remove("rules", "/2.html")
        return {
            "ok": state.ok,
            "detail": state.detail,
            "warning": state.warning,
            "twice": twice,
            "meaning": meaning[0],
            "scoped": scoped,
            "nothing": nothing,
            "shorter": shorter,
            "left": sorted(await knowledge.documents("rules")),
            "count": await knowledge.count(),
        }
    finally:
        await knowledge.close()


def main(program: str, folder: Path) -> None:
    assert only_loopback(), "to be run in a network of its own: unshare --net"
    raise_loopback()
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([program, "--data", str(folder / "milvus")], stdout=log, stderr=log, cwd=folder)
    try:
        sys.stdout.write(json.dumps(asyncio.run(tried(server))) + "\n")
    finally:
        server.terminate()
        try:
            server.wait(timeout=30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
    sys.stdout.flush()
    os._exit(0)  # gRPC's threads may wait for a server that is gone


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
