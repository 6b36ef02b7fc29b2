"""SIGTERM with open streams: each ends with a terminal event, and the process within 15 s."""

import asyncio
import json
import signal
import time
from pathlib import Path

import httpx
import pytest

from tests.deploy.processes import Serving, gatehouse, serving
from tests.messages_server import falls_silent, running_messages_server
from tests.served import Connection, Stream
from tests.test_wiring import RULES
from tests.wire import Frame, assert_grammar

pytestmark = pytest.mark.slow

STREAMS = 20


async def open_stream(server: Serving, number: int) -> tuple[Stream, list[Frame]]:
    import socket

    sock = socket.socket()
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", server.port))
    connection = Connection(sock)
    await connection.ask({"question": f"How long is record {number} kept?", "thread_id": f"t{number}"})
    await connection.read_head()
    assert connection.status == 200, await connection.read_body()
    stream = Stream(connection)
    return stream, await stream.until(lambda frame: frame.get("node") == "grade_documents")


async def rest_of(stream: Stream) -> list[Frame]:
    frames = [frame async for frame in stream.frames]
    stream.connection.close()
    return frames


async def test_twenty_open_streams_end_with_a_terminal_event_and_the_process_within_15_s(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "records.html").write_text(RULES)
    settings = {"DATA_DIR": str(tmp_path / "data")}
    pages = ["ingest", str(tmp_path / "pages"), "--source", "rules", "--kind", "official"]
    ingested = await asyncio.to_thread(gatehouse, settings, *pages)
    assert ingested.returncode == 0, ingested.stderr
    async with running_messages_server() as model:
        model.respond = lambda _: falls_silent()
        settings |= {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "key", "MODEL_SILENCE_S": "120"}
        with serving(tmp_path / "log", settings) as server:
            await asyncio.to_thread(server.until_ready)
            opened = [await open_stream(server, number) for number in range(STREAMS)]
            began = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            endings = await asyncio.gather(*(rest_of(stream) for stream, _ in opened))
            code = await asyncio.to_thread(server.process.wait, 15)
            assert time.monotonic() - began < 15
            assert code == 0
            with pytest.raises(httpx.ConnectError):
                await asyncio.to_thread(httpx.get, f"{server.url}/healthz", trust_env=False)
    for (_, seen), rest in zip(opened, endings, strict=True):
        assert_grammar([*seen, *rest])
        assert (rest[-1]["type"], rest[-1]["code"], rest[-1]["retryable"]) == ("error", "shutting_down", True)
    assert_every_line_is_of_the_log(server.log.read_text(), {frames[0]["run_id"] for _, frames in opened})


def assert_every_line_is_of_the_log(log: str, runs: set[str]) -> None:
    """Not a terminal, so JSON from the first line to the last, and not a word of what was asked."""
    lines = [json.loads(line) for line in log.splitlines()]
    assert len(runs) == STREAMS
    assert runs <= {line.get("run_id", "") for line in lines}
    assert [line for line in lines if line["level"] in ("ERROR", "CRITICAL") or "traceback" in line] == []
    requests = [line for line in lines if line["logger"] == "service.api.requests"]
    assert {(line["route"], line["status"]) for line in requests} == {("/chat", 200)}
    assert {line["run_id"] for line in requests} == runs
    assert any("Gatehouse listens" in line["message"] for line in lines)
    assert "How long is record" not in log
