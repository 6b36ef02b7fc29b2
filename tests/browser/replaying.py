"""A recorded stream, read again by the page in pieces of any size: as bytes, whatever cuts a network would choose."""

import base64
import json
import re
from collections.abc import Sequence
from itertools import pairwise

from tests.served import Served

# The page's own `fetch` hands out the pieces one by one: a browser's network stack would join small ones again.
SCRIPT = """
const pieces = %s.map(text => Uint8Array.from(atob(text), character => character.charCodeAt(0)));
const asked = window.fetch;
window.fetch = (path, init) => {
  if (String(path) !== "/chat") return asked(path, init);
  let next = 0;
  const body = new ReadableStream({
    pull(control) {
      if (next < pieces.length) control.enqueue(pieces[next++]);
      else control.close();
    },
  }, { highWaterMark: 0 });
  return Promise.resolve(new Response(body, { headers: { "Content-Type": "text/event-stream; charset=utf-8" } }));
};
"""


def replay(pieces: Sequence[bytes]) -> str:
    """A script that answers `POST /chat` with these pieces, and then the end of the stream."""
    return SCRIPT % json.dumps([base64.b64encode(piece).decode() for piece in pieces])


async def recorded(served: Served, question: str) -> bytes:
    """The bytes of one stream, as they left the server."""
    async with served.client.stream("POST", "/chat", json={"question": question}) as response:
        assert response.status_code == 200
        return await response.aread()


def in_utf8(stream: bytes) -> bytes:
    """The same frames with their characters as UTF-8, where the server writes JSON escapes."""

    def plainly(line: bytes) -> bytes:
        if not line.startswith(b"data: "):
            return line
        return b"data: " + json.dumps(json.loads(line[6:]), ensure_ascii=False).encode()

    return b"\n".join(plainly(line) for line in stream.split(b"\n"))


def of_size(stream: bytes, size: int) -> list[bytes]:
    return [stream[start : start + size] for start in range(0, len(stream), size)]


def cut_at(stream: bytes, places: Sequence[int]) -> list[bytes]:
    return [stream[start:end] for start, end in pairwise([0, *places, len(stream)]) if start < end]


def cut_inside_every_character(stream: bytes) -> list[bytes]:
    """A cut before each continuation byte (10xxxxxx): no character outside ASCII arrives whole."""
    return cut_at(stream, [place for place, byte in enumerate(stream) if byte & 0xC0 == 0x80])


def cut_after_every(stream: bytes, mark: bytes) -> list[bytes]:
    return cut_at(stream, [found.end() for found in re.finditer(re.escape(mark), stream)])


def frames_of(stream: bytes) -> list[bytes]:
    return [frame + b"\n\n" for frame in stream.split(b"\n\n") if frame]
