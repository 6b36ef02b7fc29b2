"""The schemas of a skill's two files, `skill.yaml` and the front matter of `SKILL.md`, strict and closed."""

import re
import unicodedata
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from service.errors import SkillFault
from service.model import Delivery, Kind, OnUngrounded, Scope
from service.skills import domains
from service.skills.skill import Gates

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
MAX_INSTRUCTIONS = 16_000
MAX_ENTRIES = 200

DECLARED = {
    "sources": ": write `all`, or a list of source names ([] means nothing)",
    "kinds": ": write `all`, or a list of official and reference ([] means nothing)",
    "web": ": write `web: {allowed: false}`, or allow it and name its domains",
}

_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def one_line(text: str) -> str:
    """Text for lists and terminals: folded to one line, without controls that could redraw what stands around it."""
    line = " ".join(text.split())
    if _BIDI.search(line) or any(unicodedata.category(c) in ("Cc", "Cs", "Co") for c in line):
        raise ValueError("must not hold control characters")
    return line


def prose(text: str) -> str:
    """Text for a prompt: line breaks and tabs are kept, other controls are not."""
    text = text.replace("\r\n", "\n").strip()
    if any(unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t" for c in text):
        raise ValueError("must not hold control characters")
    return text


def valid_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise ValueError("must be 1 to 64 of a-z, 0-9, - and _, beginning with a letter or digit")
    return name


def allowlist(value: object) -> frozenset[str] | None:
    """`all` is None; a list is itself, and an empty one means nothing."""
    if value == "all":
        return None
    if not isinstance(value, list) or not all(isinstance(entry, str) and entry.strip() for entry in value):
        raise ValueError("must be `all`, or a list of names ([] means nothing)")
    if "all" in value:
        raise ValueError("write `all` by itself, not in a list")
    if len(value) > MAX_ENTRIES:
        raise ValueError(f"must hold at most {MAX_ENTRIES} names")
    return frozenset(one_line(entry) for entry in value)


def domain_list(value: object) -> frozenset[str] | None:
    named = allowlist(value)
    return None if named is None else frozenset(domain(entry) for entry in named)


def domain(entry: str) -> str:
    """An entry as it is compared. A name under which anyone may publish is refused: it would admit everyone."""
    host = domains.canonical(entry) if not set(entry) & set("/:@*?#%\\") and not entry.endswith(".") else None
    if host is None:
        raise ValueError(f"{entry[:80]!r} is no domain; write it like example.org (its subdomains are included)")
    if domains.public_suffix(host) == host:
        raise ValueError(f"{entry[:80]!r} is a public suffix, under which anyone may publish; name the domain itself")
    return host


def kind_list(value: object) -> frozenset[str] | None:
    kinds = allowlist(value)
    if kinds is not None and not kinds <= {"official", "reference"}:
        raise ValueError("must be `all`, or a list of official and reference")
    return kinds


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class FrontMatter(Closed):
    """What stands between the two `---` lines at the head of `SKILL.md`."""

    name: Annotated[str, AfterValidator(valid_name)]
    description: Annotated[str, AfterValidator(one_line), Field(min_length=1, max_length=500)]


class WebBlock(Closed):
    """`allowed` only permits: the web is searched where the request itself says so."""

    allowed: bool
    domains: Annotated[frozenset[str] | None, BeforeValidator(domain_list)] = frozenset()

    @model_validator(mode="after")
    def declared(self) -> "WebBlock":
        if self.allowed and "domains" not in self.model_fields_set:
            raise ValueError("`allowed: true` needs `domains`: `all`, or a list of domains")
        return self


class GatesBlock(Closed):
    grading_hint: Annotated[str, AfterValidator(prose), Field(max_length=1_000)] = ""
    top_n: Annotated[int | None, Field(ge=1, le=20)] = None
    max_rewrites: Annotated[int | None, Field(ge=0, le=5)] = None
    max_regen: Annotated[int | None, Field(ge=0, le=5)] = None
    delivery: Delivery = "draft"
    on_ungrounded: OnUngrounded = "warn"


class Manifest(Closed):
    """`skill.yaml`. What it may read has no default: everything is said with `all`, nothing with `[]`."""

    sources: Annotated[frozenset[str] | None, BeforeValidator(allowlist)]
    kinds: Annotated[frozenset[Kind] | None, BeforeValidator(kind_list)]
    web: WebBlock
    gates: GatesBlock = GatesBlock()

    def scope(self) -> Scope:
        """What it says, with a web of no domains told as what it is: forbidden."""
        reaches = self.web.domains is None or len(self.web.domains) > 0
        return Scope(self.sources, self.kinds, self.web.allowed and reaches, self.web.domains)

    def limits(self) -> Gates:
        return Gates(**self.gates.model_dump())


Form = TypeVar("Form", bound=Closed)


def checked(schema: type[Form], fields: dict[str, Any]) -> Form:
    """Validate. Raises `SkillFault` that names each bad key and what it should be."""
    try:
        return schema.model_validate(fields)
    except ValidationError as error:
        raise SkillFault("; ".join(told(item) for item in error.errors()[:5])) from None


def told(item: Any) -> str:
    key = one_key(item["loc"])
    match item["type"]:
        case "missing":
            return f"{key} is missing{DECLARED.get(key, '')}"
        case "extra_forbidden":
            return f"{key} is not a known key"
        case _:
            return f"{key}: {item['msg'].removeprefix('Value error, ')}"


def one_key(loc: tuple[int | str, ...]) -> str:
    """The key as it is written, cut and without controls: a file may hold anything."""
    return ".".join(ascii(str(part))[1:-1][:40] for part in loc) or "the file"
