"""Skills on disk and in memory, for the tests."""

from pathlib import Path
from typing import Any

import yaml

from service.model import Scope
from service.skills.registry import Skills
from service.skills.skill import Gates, Skill

WEB_FORBIDDEN: dict[str, Any] = {"allowed": False}


def declared(**changes: Any) -> dict[str, Any]:
    """A `skill.yaml` that may read everything but the web; a change of None leaves the key out."""
    whole = {"sources": "all", "kinds": "all", "web": WEB_FORBIDDEN, **changes}
    return {key: value for key, value in whole.items() if value is not None}


def write_skill(
    folder: Path, name: str, *, yaml_text: str | None = None, written: str | None = None, **changes: Any
) -> Path:
    place = folder / name
    place.mkdir(parents=True)
    head = f"---\nname: {name}\ndescription: For tests.\n---\n"
    (place / "SKILL.md").write_text(head + "Be brief.\n" if written is None else written, encoding="utf-8")
    text = yaml.safe_dump(declared(**changes)) if yaml_text is None else yaml_text
    (place / "skill.yaml").write_text(text, encoding="utf-8")
    return place


def skill(name: str = "short", scope: Scope | None = None, gates: Gates | None = None, instructions: str = "") -> Skill:
    return Skill(name, "For tests.", instructions, scope or Scope(), gates or Gates(), "f" * 64)


def skills(*names: str) -> Skills:
    return Skills(skill(name) for name in names)
