"""The body of a response, read up to a limit: of bytes on the wire, and of bytes once decoded."""

import zlib
from collections.abc import AsyncIterable, Sequence

from service.errors import PageRefused

Headers = Sequence[tuple[bytes, bytes]]

READABLE = frozenset({"text/html", "application/xhtml+xml", "text/plain"})


def header(headers: Headers, name: bytes) -> str:
    """All values of a header, joined by commas, as latin-1 text; "" where there is none."""
    return ", ".join(value.decode("latin-1").strip() for key, value in headers if key.lower() == name)


def check_head(headers: Headers, max_bytes: int) -> None:
    """Refuse by the head alone what is no page or too large. Raises `PageRefused`."""
    kind = header(headers, b"content-type").partition(";")[0].strip().lower()
    if kind not in READABLE:
        raise PageRefused(f"its content type is not a page's: {kind[:60] or 'none'}")
    length = header(headers, b"content-length")
    if length.isdigit() and (len(length) > 12 or int(length) > max_bytes):
        raise PageRefused(f"longer than {max_bytes} bytes")


async def read_body(headers: Headers, chunks: AsyncIterable[bytes], max_bytes: int) -> bytes:
    """Return the whole body with its one encoding layer undone. Raises `PageRefused`.

    A body that is too long is refused, not cut: a snapshot is the whole page, or a link could not be judged on it.
    """
    coding = header(headers, b"content-encoding").lower()
    if coding in ("", "identity"):
        return await _plain(chunks, max_bytes)
    if coding in ("gzip", "x-gzip"):
        return await _unzipped(chunks, max_bytes)
    raise PageRefused(f"its encoding is not read: {coding[:60]}")


async def _plain(chunks: AsyncIterable[bytes], max_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        _check_size(len(body), max_bytes)
    return bytes(body)


async def _unzipped(chunks: AsyncIterable[bytes], max_bytes: int) -> bytes:
    """One byte more than the limit is ever inflated, whatever the stream holds."""
    inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
    body = bytearray()
    received = 0
    async for chunk in chunks:
        received += len(chunk)
        _check_size(received, max_bytes)
        try:
            body += inflater.decompress(chunk, max_bytes + 1 - len(body))
        except zlib.error:
            raise PageRefused("its encoding is broken") from None
        _check_size(len(body), max_bytes)
    if not inflater.eof or inflater.unused_data:
        raise PageRefused("its encoding is broken")
    return bytes(body)


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise PageRefused(f"longer than {max_bytes} bytes")
