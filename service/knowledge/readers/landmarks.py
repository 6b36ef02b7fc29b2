"""Which parts of a page are content and which are its frame: landmarks, controls, skip links, breadcrumbs."""

import re
from dataclasses import dataclass, replace

from selectolax.lexbor import LexborHTMLParser, LexborNode

from service.knowledge.readers.styles import Attributes

# https://www.w3.org/TR/wai-aria-1.2/#landmark_roles and the widgets that carry no content of their own
_FRAME_ROLES = frozenset(
    [
        *("navigation", "banner", "contentinfo", "search", "complementary", "doc-toc", "doc-pagelist"),
        *("menu", "menubar", "toolbar", "tablist", "button", "dialog", "alertdialog"),
    ]
)
_FRAME_TAGS = frozenset(["nav", "button", "input", "select", "output", "meter", "progress", "search", "menu", "text"])
_SECTIONING = frozenset(["article", "main", "section", "aside", "nav"])
_FRAME_CLASS = re.compile(
    r"(?:^|\s)(?!(?:has|with|no)[-_])(?:\w+[-_]+)?"
    r"(?:bread-?crumbs?|skip-?(?:link|nav|to)s?|cookie-?(?:banner|bar|notice|consent)|last-?(?:updated|reviewed|modified)"
    r"|(?:feedback|helpful)(?=$|\s))(?=$|[\s_-])",
    re.IGNORECASE,
)
_NOTE_CLASS = re.compile(r"(?:^|[\s_-])(?:foot-?notes?|end-?notes?)(?=$|[\s_-])", re.IGNORECASE)
_MARK_CLASS = re.compile(r"(?:^|[\s_-])(?:note-?ref|fn-?ref|foot-?note-?(?:ref|mark|link))(?=$|[\s_-])", re.IGNORECASE)
_SKIP_LINK = re.compile(r"\s*skip\s+(?:to|over)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Region:
    """Where an element stands: inside the scope of content, inside sectioning content, inside the frame."""

    in_scope: bool
    sectioned: bool = False
    frame: bool = False

    @property
    def content(self) -> bool:
        return self.in_scope and not self.frame


class Landmarks:
    """A page with `<main>`, or else with `<article>`, has its content there alone."""

    def __init__(self, document: LexborHTMLParser) -> None:
        self._scope = next((query for query in ("main, [role=main]", "article") if document.css(query)), "")
        self._scopes = {node.mem_id for node in document.css(self._scope)} if self._scope else set()

    def root(self) -> Region:
        return Region(in_scope=not self._scope)

    def enter(self, tag: str, attributes: Attributes, mem_id: int, parent: Region) -> Region:
        """Return the region of an element inside `parent`."""
        if parent.frame:
            return parent
        return replace(
            parent,
            in_scope=parent.in_scope or mem_id in self._scopes,
            sectioned=parent.sectioned or tag in _SECTIONING,
            frame=_is_frame(tag, attributes, parent),
        )


def _is_frame(tag: str, attributes: Attributes, parent: Region) -> bool:
    role = (attributes.get("role") or "").lower()
    names = f"{attributes.get('class') or ''} {attributes.get('id') or ''}"
    if role in _FRAME_ROLES or tag in _FRAME_TAGS:
        return True
    if tag in ("header", "footer"):
        return not parent.sectioned
    if tag == "aside":
        return not (role.startswith("doc-") or role == "note" or _NOTE_CLASS.search(names))
    if tag in ("html", "body", "main", "article"):
        return False
    label = attributes.get("aria-label") or ""
    return _FRAME_CLASS.search(names) is not None or label.lower().startswith("breadcrumb")


def is_skip_link(attributes: Attributes, node: LexborNode) -> bool:
    return (attributes.get("href") or "").startswith("#") and _SKIP_LINK.match(node.text()) is not None


def is_note_mark(attributes: Attributes) -> bool:
    """Is the element a footnote's mark in the text, by its role or class?"""
    names = attributes.get("class") or ""
    return attributes.get("role") == "doc-noteref" or _MARK_CLASS.search(names) is not None
