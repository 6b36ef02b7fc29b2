"""From bytes to text: byte order mark, declared charset, UTF-8, in the order a browser takes them.

A label that is not the Encoding Standard's counts as none.
"""

import codecs
import re

from service.errors import IngestError
from service.knowledge.readers.charsets import CODECS

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# White space is read in one way only: a header of nothing else must not take quadratic time.
_CHARSET = re.compile(r"charset\s*=\s*(?:[\"']\s*)?([\w:.+-]+)", re.IGNORECASE)
_META = re.compile(rb"<meta[^>]{0,400}?charset\s*=\s*[\"']?\s*([\w:.+-]+)", re.IGNORECASE)
_XML = re.compile(rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w:.+-]+)", re.IGNORECASE)
_JUNK = re.compile("[\x00-\x08\x0b\x0e-\x1f\ufffd]")


def decode(data: bytes, content_type: str = "") -> str:
    """Return the text of a page. Raises `IngestError` where the bytes are no text."""
    text = _decoded(data, content_type)
    junk = len(_JUNK.findall(text))
    if junk > max(2, len(text) // 100):
        raise IngestError("the bytes are not text in any encoding that the page declares or that could be told")
    return text


def _decoded(data: bytes, content_type: str) -> str:
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, errors="replace")
    if declared := _declared(data[:1024], content_type):
        return data.decode(declared, errors="replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")


def _declared(head: bytes, content_type: str) -> str:
    in_header = _CHARSET.search(content_type)
    in_page = _META.search(head) or _XML.search(head)
    for label in (in_header[1] if in_header else "", in_page[1].decode("ascii", "ignore") if in_page else ""):
        if codec := CODECS.get(label.lower()):
            return codec
    return ""
