"""What `gatehouse skills new` writes: a skill that is valid as it stands, and reads nothing until it is told to."""

from pathlib import Path

from service.errors import SkillFault
from service.skills.folder import DECLARED, WRITTEN
from service.skills.manifest import valid_name

SKILL_MD = """\
---
name: {name}
description: One line that says what this skill is for. It is shown in lists.
---

Write here how an answer of this kind is to be built: what comes first, in which form, for which reader.

These instructions reach the writer alone. They cannot change what may be read, the gates, the labels or the web switch,
and nothing in them can be cited: facts belong into the knowledge base.
"""

SKILL_YAML = """\
# What this skill may read. `all` is everything, a list only what it names, [] nothing.
sources: []             # names given at `gatehouse ingest --source`
kinds: all              # or [official], [reference]

# The web is searched only where a request asks for it; a skill can forbid it or narrow it, never turn it on.
web:
  allowed: false
  # domains: [example.org]        # with `allowed: true`; `all`, or domains with their subdomains

# Each is optional, and but for top_n can only be stricter than the operator's settings and the request.
gates:
  # grading_hint: What makes a passage relevant for questions of this kind.
  # top_n: 6                      # passages kept after the rerank, in place of the operator's
  # max_rewrites: 0
  # max_regen: 0
  delivery: draft                 # or verified: nothing is shown before both gates have passed
  on_ungrounded: warn             # or refuse
"""


def write_new(skills: Path, name: str) -> Path:
    """Make `skills/name` and return it. Raises `SkillFault` for a bad name or one that is taken."""
    try:
        folder = skills / valid_name(name)
    except ValueError as error:
        raise SkillFault(f"A skill's name {error}.") from None
    try:
        skills.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
        (folder / WRITTEN).write_text(SKILL_MD.format(name=name), encoding="utf-8")
        (folder / DECLARED).write_text(SKILL_YAML, encoding="utf-8")
    except FileExistsError:
        raise SkillFault(f"{folder} is there already. Choose another name.") from None
    except OSError as error:
        raise SkillFault(f"{folder} cannot be written ({error.strerror}).") from None
    return folder
