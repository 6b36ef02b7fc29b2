"""Read an HTML page into the text blocks that a browser would render, in order (HTML standard, section 15)."""

import re
from dataclasses import dataclass, replace

from selectolax.lexbor import LexborHTMLParser, LexborNode

from service.knowledge.readers.decode import decode
from service.knowledge.readers.depth import flattened
from service.knowledge.readers.landmarks import Landmarks, Region, is_note_mark, is_skip_link
from service.knowledge.readers.rows import Rows
from service.knowledge.readers.structure import Place, Position, RawBlock, structured
from service.knowledge.readers.styles import Attributes, Box, StyleSheet, compute
from service.model import Block, Page

_COLLAPSIBLE = re.compile(r"[ \t\n\r\f]+")
_SELF_CLOSED = re.compile(r"<([A-Za-z][\w:-]*)((?:\s[^<>]*)?)/>")
_NUMBER_NAME = re.compile(
    r"(?:^|[\s_-])(?:num|number|(?:rule|para|paragraph|section|clause|provision)[-_]?(?:no|num|number|id|ref))(?=$|[\s_-])",
    re.IGNORECASE,
)
_PLACES: dict[str, Place] = {"td": "cell", "th": "cell", "dt": "term"}


def read_html(data: str | bytes, *, content_type: str = "text/html") -> Page:
    """Return the page's title and blocks. Text kinds other than HTML have one block per line.

    Broken markup is read as a browser reads it. Raises `IngestError` for bytes that are no text.
    """
    text = decode(data, content_type) if isinstance(data, bytes) else data
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "text/plain":
        return Page("", tuple(Block(line) for line in text.splitlines() if line.strip()))
    if kind.endswith("+xml"):
        text = _SELF_CLOSED.sub(_opened_and_closed, text)
    document = LexborHTMLParser(flattened(text), scripting=True)
    blocks = structured(_Reader(document).read(document.root)) if document.root is not None else ()
    return Page(_title(document) or _first_heading(blocks), blocks)


def _opened_and_closed(match: re.Match[str]) -> str:
    void = match[1].lower() in ("br", "hr", "img", "input", "link", "meta", "wbr", "col", "area", "base", "source")
    return match[0] if void else f"<{match[1]}{match[2]}></{match[1]}>"


def _title(document: LexborHTMLParser) -> str:
    title = document.css_first("head > title")
    return _COLLAPSIBLE.sub(" ", title.text()).strip() if title is not None else ""


def _first_heading(blocks: tuple[Block, ...]) -> str:
    return next((block.headings[0] for block in blocks if block.headings), "")


@dataclass(frozen=True, slots=True)
class _Frame:
    """What an open element hands down to its children."""

    box: Box
    region: Region
    position: Position
    is_number: bool = False
    is_mark: bool = False

    @property
    def content(self) -> bool:
        return self.region.content and not self.box.ghost


class _Run:
    """The text between two block boundaries, its white space collapsed as CSS Text 3 does (section 4.1)."""

    def __init__(self) -> None:
        self.frame: _Frame | None = None
        self.anchor = ""
        self.number = ""
        self.marks: list[str] = []
        self._parts: list[str] = []
        self._ends_in_space = True
        self._only_number = True

    def append(self, text: str, frame: _Frame, anchor: str) -> None:
        preserve = frame.box.white_space.startswith(("pre", "break")) and frame.box.white_space != "pre-line"
        if not preserve:
            text = _COLLAPSIBLE.sub(" ", text)
            text = text.removeprefix(" ") if self._ends_in_space else text
        if not text:
            return
        self._parts.append(text)
        self._ends_in_space = not preserve and text.endswith(" ")
        if not text.isspace():
            self._only_number = self._only_number and frame.is_number
            self.frame, self.anchor = self.frame or frame, self.anchor if self.frame else anchor
        self.number += text if self._only_number else ""

    def block(self) -> RawBlock | None:
        if self.frame is None:
            return None
        text = "".join(self._parts)
        text = text[:-1] if self._ends_in_space else text
        at = self.frame
        return RawBlock(text, at.content, self.anchor, at.position, self.number.strip(), tuple(self.marks))


class _Reader:
    """One walk over the document, without recursion: a hostile page may be nested without end."""

    def __init__(self, document: LexborHTMLParser) -> None:
        self._styles = StyleSheet(document)
        self._landmarks = Landmarks(document)
        self._blocks: list[RawBlock] = []
        self._run = _Run()
        self._anchors = {True: "", False: ""}
        self._marks: set[str] = set()
        self._rows = Rows()

    def read(self, root: LexborNode) -> list[RawBlock]:
        frames = [_Frame(Box(), self._landmarks.root(), Position())]
        node: LexborNode | None = root
        while node is not None:
            frame = self._enter(node, frames[-1])
            if frame is not None and node.first_child is not None:
                frames.append(frame)
                node = node.first_child
                continue
            self._leave(frame)
            while node is not None and node.next is None and len(frames) > 1:
                self._leave(frames.pop())
                node = node.parent
            node = node.next if node is not None and len(frames) > 1 else None
        self._flush()
        return self._blocks

    def _enter(self, node: LexborNode, parent: _Frame) -> _Frame | None:
        """Take in a node and return what its children inherit; None where it has no rendered children."""
        tag = node.tag or ""
        if tag == "-text":
            self._text(node.text_content or "", parent)
        if tag.startswith("-"):
            return None
        if tag == "br":
            self._flush()
            return None
        frame = self._frame(node, tag, node.attributes, parent)
        if frame.box.display == "none":
            return None
        if frame.box.display in ("block", "atomic"):
            self._flush()
        self._note_links(tag, node.attributes, frame)
        return frame

    def _note_links(self, tag: str, attributes: Attributes, frame: _Frame) -> None:
        if anchor := attributes.get("id") or (tag == "a" and attributes.get("name")):
            self._anchors[frame.content] = anchor
        href = (attributes.get("href") or "") if tag == "a" else ""
        if frame.is_mark and href.startswith("#") and len(href) > 1:
            self._run.marks.append(href[1:])
            self._marks.add(href[1:])

    def _frame(self, node: LexborNode, tag: str, attributes: Attributes, parent: _Frame) -> _Frame:
        box = compute(tag, attributes, self._styles.declarations(node.mem_id, attributes), parent.box)
        region = self._landmarks.enter(tag, attributes, node.mem_id, parent.region)
        backlink = bool(parent.position.notes) and (attributes.get("href") or "").startswith("#")
        if tag == "a" and ((backlink and not parent.is_mark) or is_skip_link(attributes, node)):
            region = replace(region, frame=True)
        return _Frame(
            box=box,
            region=region,
            position=self._position(node, tag, attributes, parent.position),
            is_number=parent.is_number or _is_number(attributes),
            is_mark=parent.is_mark or tag == "sup" or is_note_mark(attributes),
        )

    def _position(self, node: LexborNode, tag: str, attributes: Attributes, above: Position) -> Position:
        name = attributes.get("id")
        notes = (*above.notes, name) if name and name in self._marks else above.notes
        level = _heading_level(tag, attributes)
        place: Place = "heading" if level else _PLACES.get(tag, above.place)
        if tag == "a" and place != "heading" and not (attributes.get("href") or "#").startswith("#"):
            place = "reference"
        table = self._rows.table(tag, above.table)
        return Position(
            place=place,
            level=level or above.level,
            element=node.mem_id if level else above.element,
            row=self._rows.row(node, tag, table, above.row),
            table=table,
            names_columns=self._rows.names_columns(node, tag, table, above.names_columns),
            notes=notes,
        )

    def _leave(self, frame: _Frame | None) -> None:
        if frame is not None and frame.box.display in ("block", "atomic"):
            self._flush()

    def _text(self, text: str, frame: _Frame) -> None:
        """Add a text node. What is hidden or outside the content never shares a block with what is not."""
        blank = not text.strip()
        if not blank and (not frame.box.visible or (self._run.frame and self._run.frame.content != frame.content)):
            self._flush()
        if not frame.box.visible:
            return
        lines = [text]
        if frame.box.white_space in ("pre", "pre-wrap", "pre-line", "break-spaces"):
            lines = text.split("\n")  # a preserved line feed is a forced break, as <br> is
        for index, line in enumerate(lines):
            if index:
                self._flush()
            self._run.append(line, frame, self._anchors[frame.content])

    def _flush(self) -> None:
        if block := self._run.block():
            self._blocks.append(block)
        self._run = _Run()


def _heading_level(tag: str, attributes: Attributes) -> int:
    if len(tag) == 2 and tag[0] == "h" and tag[1] in "123456":
        return int(tag[1])
    if (attributes.get("role") or "").lower() != "heading":
        return 0
    level = attributes.get("aria-level") or ""
    return int(level) if level in ("1", "2", "3", "4", "5", "6") else 2


def _is_number(attributes: Attributes) -> bool:
    return _NUMBER_NAME.search(f"{attributes.get('class') or ''} {attributes.get('id') or ''}") is not None
