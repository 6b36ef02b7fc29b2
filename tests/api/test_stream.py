"""The stream of POST /chat as bytes on a socket: headers, frames, pings and order."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from service.model import Source
from service.usage import Usage
from tests.fakes import ScriptedModel, services
from tests.running import House
from tests.served import QUESTION, Served, Stream, eventually, parsed, serving
from tests.wire import assert_grammar, kinds, of, shown_text

AWKWARD = 'a\nb\r\nc\rd\u2028e\u2029f\x85g\x00h\x0b\n\nevent: done\ndata: {"forged":1}\n\n: ping\n\n [[1]]'


def house(folder: Path, model: ScriptedModel | None = None) -> House:
    return House(services(folder), model or ScriptedModel())


async def test_D01_the_headers_tell_proxies_and_caches_to_keep_their_hands_off(tmp_path: Path) -> None:
    async with serving(house(tmp_path)) as served, served.asking(headers={"Accept-Encoding": "gzip, br"}) as stream:
        headers = stream.connection.headers
        assert headers["content-type"] == "text/event-stream; charset=utf-8"
        assert headers["cache-control"] == "no-store"
        assert headers["x-accel-buffering"] == "no"
        assert headers["transfer-encoding"] == "chunked"
        assert not {"content-encoding", "connection", "content-length", "server"} & headers.keys()


async def test_the_frames_keep_the_grammar_and_the_connection_serves_the_next_question(tmp_path: Path) -> None:
    async with serving(house(tmp_path)) as served, served.asking() as stream:
        first = [frame async for frame in stream.frames]
        await stream.connection.ask({"question": QUESTION, "thread_id": first[0]["thread_id"]})
        await stream.connection.read_head()
        second = [frame async for frame in Stream(stream.connection).frames]
    for frames in (first, second):
        assert_grammar(frames)
        assert frames[-1]["status"] == "answered"
    assert first[0]["run_id"] != second[0]["run_id"]


async def test_the_run_frame_is_first_and_says_what_was_asked_for(tmp_path: Path) -> None:
    async with serving(house(tmp_path)) as served:
        frames = await served.frames(thread_id="t-1_A", web_search=True, delivery="verified")
        made = (await served.frames())[0]
    assert {key: frames[0][key] for key in ("type", "thread_id", "web_search", "delivery", "model", "skill")} == {
        "type": "run",
        "thread_id": "t-1_A",
        "web_search": True,
        "delivery": "verified",
        "model": "scripted",
        "skill": None,
    }
    assert made["thread_id"].startswith("t_")
    assert made["web_search"] is False


@pytest.mark.parametrize("piece", [1, 1000])
async def test_no_text_of_a_draft_can_forge_a_frame(tmp_path: Path, piece: int) -> None:
    model = ScriptedModel(draft=lambda *_: AWKWARD, piece=piece)
    async with serving(house(tmp_path, model)) as served, served.asking() as stream:
        frames = [frame async for frame in stream.frames]
        assert stream.comments == []
    assert_grammar(frames)
    assert shown_text(frames) == AWKWARD


async def test_a_lone_surrogate_leaves_as_the_replacement_character(tmp_path: Path) -> None:
    model = ScriptedModel(draft=lambda *_: "a\ud83d b \udc00c [[1]].", piece=3)
    async with serving(house(tmp_path, model)) as served:
        frames = await served.frames(thread_id="t")
        assert (await served.client.get("/threads/t")).status_code == 200
    assert_grammar(frames)
    assert frames[-1]["answer"] == "a\ufffd b \ufffdc [[1]]."


async def test_an_event_that_cannot_be_shown_ends_the_stream_in_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = house(tmp_path)
    monkeypatch.setattr(home.presenter, "answer", lambda *_: 1 / 0)
    async with serving(home) as served:
        frames = await served.frames()
    assert_grammar(frames)
    assert frames[-1]["code"] == "internal"


async def test_D02_the_first_byte_comes_while_the_model_is_silent(tmp_path: Path) -> None:
    model = ScriptedModel(delay_s=30)
    async with serving(house(tmp_path, model)) as served:
        async with asyncio.timeout(20), served.asking() as stream:
            seen = await stream.until(lambda frame: frame["type"] == "run")
        assert kinds(seen) == ["run"]
        assert model.count("answer") == 0


async def test_D01_pings_fill_the_silence_and_never_split_an_event(tmp_path: Path) -> None:
    model = ScriptedModel(delay_s=0.25)
    async with serving(house(tmp_path, model), ping_s=0.05) as served, served.asking() as stream:
        frames = [frame async for frame in stream.frames]
    assert_grammar(frames)
    assert set(stream.comments) == {b": ping"}
    # Grading and judging are silent for 250 ms each.
    names = [b"ping" if block.startswith(b":") else parsed(block)["type"].encode() for _, block in stream.blocks]
    assert names.index(b"ping") < names.index(b"token")
    assert b"ping" in names[len(names) - names[::-1].index(b"token") :]


async def test_pings_fill_the_silence_of_a_held_draft_too(tmp_path: Path) -> None:
    """U13, D01."""
    model = ScriptedModel(delay_s=0.2)
    async with serving(house(tmp_path, model), ping_s=0.05) as served, served.asking(delivery="verified") as stream:
        frames = [frame async for frame in stream.frames]
    assert_grammar(frames, "verified")
    assert len(stream.comments) >= 4


async def test_a_stream_that_is_never_silent_has_no_pings(tmp_path: Path) -> None:
    async with serving(house(tmp_path)) as served, served.asking() as stream:
        assert [frame async for frame in stream.frames]
        assert stream.comments == []


@dataclass
class InStep(ScriptedModel):
    """Writes the next piece only when all before the last two have been read at the other end."""

    tokens: list[str] = field(default_factory=list)

    async def answer(
        self, question: str, sources: Sequence[Source], feedback: str, usage: Usage, instructions: str = ""
    ) -> AsyncGenerator[str, None]:
        async with aclosing(super().answer(question, sources, feedback, usage, instructions)) as pieces:
            written = 0
            async for piece in pieces:
                await eventually(lambda written=written: len(self.tokens) >= written - 2)  # type: ignore[misc]
                yield piece
                written += 1


async def test_D02_tokens_arrive_one_by_one_as_the_model_writes_them(tmp_path: Path) -> None:
    model = InStep(draft=lambda *_: "word " * 10 + "[[1]].", piece=5)
    async with serving(house(tmp_path, model)) as served, served.asking() as stream:
        async for frame in stream.frames:
            if frame["type"] == "token":
                model.tokens.append(frame["text"])
    assert (frame["type"], frame["answer"]) == ("done", "".join(model.tokens))
    assert len(model.tokens) >= 8


async def test_a_verified_delivery_sends_no_token_before_both_verdicts(tmp_path: Path) -> None:
    async with serving(house(tmp_path)) as served:
        frames = await served.frames(delivery="verified")
    assert_grammar(frames, "verified")
    before = frames[: kinds(frames).index("token")]
    assert [(v["gate"], v["result"]) for v in of(before, "verdict")] == [
        ("documents", "pass"),
        ("grounded", "pass"),
        ("answers", "pass"),
    ]


async def test_a_reader_of_single_bytes_gets_the_whole_stream(tmp_path: Path) -> None:
    async with serving(house(tmp_path)) as served, served.asking(step=1) as stream:
        frames = [frame async for frame in stream.frames]
    assert_grammar(frames)
    assert frames[-1]["status"] == "answered"


async def test_a_reader_who_stalls_does_not_lose_a_frame(tmp_path: Path) -> None:
    model = ScriptedModel(draft=lambda *_: "x" * 400_000 + " [[1]]", piece=1000)
    async with serving(house(tmp_path, model)) as served, served.asking() as stream:
        await stream.until(lambda frame: frame["type"] == "sources")
        await asyncio.sleep(0.3)
        rest = [frame async for frame in stream.frames]
    assert len(shown_text(rest)) == 400_006
    assert rest[-1]["answer"] == shown_text(rest)


async def test_json_gives_the_done_object_alone(tmp_path: Path) -> None:
    async with serving(house(tmp_path)) as served:
        frames = await served.frames()
        answer = await served.answer()
    done = answer.json()
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert done.keys() == frames[-1].keys()
    passing = ("run_id", "thread_id", "usage", "timings", "seq")
    assert {k: v for k, v in done.items() if k not in passing} == {
        k: v for k, v in frames[-1].items() if k not in passing
    }


async def test_a_stream_is_the_default(tmp_path: Path) -> None:
    async with serving(house(tmp_path)) as served:
        for accept in ("", "*/*", "text/event-stream", "text/event-stream, application/json", "text/html"):
            async with served.asking(headers={"Accept": accept}) as stream:
                assert stream.connection.headers["content-type"].startswith("text/event-stream")


async def test_two_questions_in_one_packet_get_two_whole_streams_in_order(tmp_path: Path) -> None:
    async with serving(house(tmp_path)) as served:
        frames = await pipelined(served, ["first", "second"])
    for stream in frames:
        assert_grammar(stream)
    assert [stream[0]["thread_id"] for stream in frames] == ["first", "second"]


async def pipelined(served: Served, threads: list[str]) -> list[list[dict[str, object]]]:
    connection = await served.connect()
    head = "POST /chat HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    bodies = [f'{{"question":"{QUESTION}","thread_id":"{thread}"}}' for thread in threads]
    await connection.write("".join(f"{head}Content-Length: {len(b)}\r\n\r\n{b}" for b in bodies).encode())
    found = []
    for _ in threads:
        await connection.read_head()
        body = await connection.read_body()
        found.append([parsed(block) for block in body.split(b"\n\n")[:-1]])
    connection.close()
    return found
