"""YAML without its surprises: one mapping of text, whole numbers, `true`, `false`, null, lists and mappings.

Refused: anchors and aliases (300 bytes of them expand to millions of leaves), tags, doubled keys, a second document,
deep nesting. Everything that YAML 1.1 reads as something unexpected (`no`, `012`, `12:30`, `1.10`, dates, `<<`) stays
the text that was written, and the schema says what it wanted instead.
"""

import re
from typing import Any

import yaml

from service.errors import SkillFault

MAX_DEPTH = 6


class StrictLoader(yaml.SafeLoader):
    """A `SafeLoader` with the few implicit types of this module, and without doubled keys."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's class attribute, begun anew

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for place, _ in node.value:
            key = self.construct_object(place, deep=True)
            if not isinstance(key, str):
                raise SkillFault(f"{where(place)}: a key must be text")
            if key in seen:
                raise SkillFault(f"{where(place)}: the key {key[:40]!r} is written more than once")
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


StrictLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))
StrictLoader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^(?:0|-?[1-9]\d{0,8})$"), list("-0123456789"))
StrictLoader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:null|~|)$"), ["n", "~", ""])


def load_mapping(text: str) -> dict[str, Any]:
    """Return the one mapping in `text`. Raises `SkillFault` that names the line and what to change."""
    try:
        check_events(text)
        found = yaml.load(text, StrictLoader)
    except yaml.YAMLError as error:
        raise SkillFault(f"{where(error)}: not valid YAML ({problem_of(error)})") from None
    except (ValueError, RecursionError):
        raise SkillFault("not valid YAML") from None
    if not isinstance(found, dict):
        raise SkillFault("must be a mapping of keys to values (`key: value`)")
    return found


def check_events(text: str) -> None:
    """Look at the stream of events, which is read without recursion, before anything is built from it."""
    depth = documents = 0
    for event in yaml.parse(text, StrictLoader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise SkillFault(f"{where(event)}: anchors (&) and aliases (*) are not allowed; put such text in quotes")
        if getattr(event, "tag", None) is not None:
            raise SkillFault(f"{where(event)}: tags (!) are not allowed; put such text in quotes")
        documents += isinstance(event, yaml.DocumentStartEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if documents > 1:
            raise SkillFault(f"{where(event)}: a second document begins (`---`); one is allowed")
        if depth > MAX_DEPTH:
            raise SkillFault(f"{where(event)}: nested more than {MAX_DEPTH} deep")


def where(thing: object) -> str:
    """`line 3` of an event, a node or an error; lines count from 1."""
    mark = getattr(thing, "start_mark", None) or getattr(thing, "problem_mark", None)
    return f"line {mark.line + 1}" if mark is not None else "somewhere"


def problem_of(error: yaml.YAMLError) -> str:
    return str(getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable")[:120]
