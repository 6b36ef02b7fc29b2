"""What is told about the skills: to everyone in a list; to an operator at start, on `/readyz` and by `validate`."""

from collections.abc import Callable
from typing import Any, Literal

from service.model import ComponentState, Kind
from service.skills.registry import Skills
from service.skills.skill import Skill

Allowlist = Literal["all"] | list[str]
"""`all`, or exactly what is named; an empty list is nothing."""


def summary(skill: Skill) -> dict[str, Any]:
    """What a skill is for, what it may read, and the hash of its two files, as `GET /skills` puts it."""
    scope = skill.scope
    return {
        "name": skill.name,
        "description": skill.description,
        "sources": listed(scope.sources),
        "kinds": listed(scope.kinds),
        "web": {"allowed": scope.web, "domains": listed(scope.domains)},
        "sha256": skill.sha256,
    }


def listed(allowed: frozenset[str] | frozenset[Kind] | None) -> Allowlist:
    return "all" if allowed is None else sorted(allowed)


def faults(skills: Skills) -> list[str]:
    """One line for each folder that is no usable skill."""
    return [f"skill {broken.folder} is not usable: {broken.reason}" for broken in skills.broken]


def doubts(skills: Skills, is_ingested: Callable[[str], bool]) -> list[str]:
    """One line for each source that skills name and that was never ingested: a slip, or still to come."""
    named: dict[str, list[str]] = {}
    for skill in skills:
        for source in skill.scope.sources or ():
            named.setdefault(source, []).append(skill.name)
    return [
        f"the source {source!r}, named by {', '.join(names)}, was never ingested: nothing of it is found"
        for source, names in sorted(named.items())
        if not is_ingested(source)
    ]


def state_of(skills: Skills, is_ingested: Callable[[str], bool]) -> ComponentState:
    """Always `ok`: a broken skill takes nothing from the others, nor from questions without one."""
    names = ", ".join(skill.name for skill in skills) or "none"
    return ComponentState("skills", True, names, "; ".join([*faults(skills), *doubts(skills, is_ingested)]))
