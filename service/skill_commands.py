"""`gatehouse skills`: list what there is, validate what was written, begin a new one. Nothing else is opened."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from service.console import Tell, tell
from service.errors import SkillFault
from service.knowledge.sources import SourceRegistry
from service.printable import printable
from service.settings import Settings, load_settings
from service.skills.registry import Skills
from service.skills.report import doubts, faults, summary
from service.skills.skill import Skill
from service.skills.template import write_new

commands = typer.Typer(no_args_is_help=True, help="List, validate and begin skills.")


def installed(settings: Settings) -> Skills:
    return Skills.load(settings.SKILLS_DIR, optional=settings.skills_may_be_missing())


def report_skills(skills: Skills, registry: SourceRegistry, told: Tell = tell) -> None:
    """Say at start which skills there are, and what is wrong with the others."""
    told(f"skills: {', '.join(skill.name for skill in skills) or 'none'}", "dim")
    for line in doubts(skills, lambda source: registry.get(source) is not None):
        told(line, "yellow")
    for line in faults(skills):
        told(line, "red")


@commands.command("list")
def list_skills(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Show each usable skill, and what it may read."""
    skills = installed(load_settings())
    for skill in skills:
        typer.echo(json.dumps(brief(skill)) if as_json else printable(block(skill)))
    for line in faults(skills):
        tell(line, "red")


@commands.command()
def validate(
    folder: Annotated[Path | None, typer.Argument(help="A folder of skills; SKILLS_DIR when absent.")] = None,
) -> None:
    """Check every skill, and say for each what to mend. Ends with code 1 when one is not usable."""
    settings = load_settings()
    skills = Skills.load(folder) if folder else installed(settings)
    for skill in skills:
        tell(f"skill {skill.name} is usable, sha256 {skill.sha256}", "green")
    report_skills(skills, SourceRegistry(settings.DATA_DIR / "sources.json"))
    if skills.broken:
        raise SkillFault(f"{len(skills.broken)} skill(s) are not usable; {len(skills)} are.")


@commands.command()
def new(name: Annotated[str, typer.Argument(help="Name of the skill: a-z, 0-9, - and _.")]) -> None:
    """Make a folder with a skill that is valid as it stands, and reads nothing until it is told to."""
    folder = write_new(load_settings().SKILLS_DIR, name)
    typer.echo(f"{folder}: write SKILL.md, say in skill.yaml what it may read, then run `gatehouse skills validate`.")


def block(skill: Skill) -> str:
    """A skill as the list shows it: name and hash, what it is for, what it may read."""
    told = brief(skill)
    reads = "; ".join(f"{key}: {words(told[key])}" for key in ("sources", "kinds", "web"))
    return f"{skill.name}  (sha256 {skill.sha256[:12]})\n  {skill.description}\n  reads {reads}"


def brief(skill: Skill) -> dict[str, Any]:
    """The summary with the skill's web in one value: what it may read there."""
    told = summary(skill)
    return {**told, "web": told["web"]["domains"] if told["web"]["allowed"] else []}


def words(allowed: str | list[str]) -> str:
    return allowed if isinstance(allowed, str) else ", ".join(allowed) or "nothing"
