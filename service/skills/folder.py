"""A skill's folder on disk: `SKILL.md` and `skill.yaml`, read without leaving the folder and without trusting it.

The sha256 of a skill can be had in a shell: `sha256sum SKILL.md skill.yaml | sha256sum`.
"""

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from service.errors import SkillFault
from service.skills.manifest import MAX_INSTRUCTIONS, NAME, FrontMatter, Manifest, checked, prose
from service.skills.skill import Skill
from service.skills.strict_yaml import load_mapping

WRITTEN, DECLARED = "SKILL.md", "skill.yaml"
MAX_FILE_BYTES = 65_536
T = TypeVar("T")


def read_skill(folder: Path) -> Skill:
    """Read and check one skill. Raises `SkillFault`, whose text begins with the file to mend."""
    if not NAME.fullmatch(folder.name):
        raise SkillFault("the folder's name must be 1 to 64 of a-z, 0-9, - and _, beginning with a letter or digit")
    if folder.is_symlink():
        raise SkillFault("the folder is a link; copy the skill instead")
    raw = {name: read_inside(folder, name) for name in (WRITTEN, DECLARED)}
    front, instructions = in_file(WRITTEN, lambda: split_front_matter(decoded(raw[WRITTEN])))
    if front.name != folder.name:
        raise SkillFault(f"{WRITTEN}: name: must be the folder's, {folder.name}")
    declared = in_file(DECLARED, lambda: checked(Manifest, load_mapping(decoded(raw[DECLARED]))))
    return Skill(
        name=front.name,
        description=front.description,
        instructions=instructions,
        scope=declared.scope(),
        gates=declared.limits(),
        sha256=sha256_of(raw),
    )


def in_file(name: str, work: Callable[[], T]) -> T:
    """Put the file's name before the fault's own words."""
    try:
        return work()
    except SkillFault as fault:
        raise SkillFault(f"{name}: {fault}") from None


def read_inside(folder: Path, name: str) -> bytes:
    """The file's bytes. A link may lead elsewhere in the folder, as those of a mounted ConfigMap do, not out of it."""
    try:
        real = (folder / name).resolve(strict=True)
        if not real.is_relative_to(folder.resolve(strict=True)):
            raise SkillFault(f"{name}: is a link that leaves the skill's folder; copy the file instead")
        return read_regular(real, name)
    except FileNotFoundError:
        raise SkillFault(f"{name}: is missing") from None
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "a loop of links"
        raise SkillFault(f"{name}: cannot be read ({reason})") from None


def read_regular(path: Path, name: str) -> bytes:
    """Read a regular file of limited size: never a pipe that would hang, nor a link put there in the meantime."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise SkillFault(f"{name}: is not a regular file")
        raw = file.read(MAX_FILE_BYTES + 1)
    if len(raw) > MAX_FILE_BYTES:
        raise SkillFault(f"{name}: is larger than {MAX_FILE_BYTES // 1024} KB")
    return raw


def decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise SkillFault("is not UTF-8 text") from None


def split_front_matter(text: str) -> tuple[FrontMatter, str]:
    """The front matter and the instructions of a `SKILL.md`."""
    head, mark, body = f"{text}\n".removeprefix("---\n").partition("\n---\n")
    if not text.startswith("---\n") or not mark:
        raise SkillFault("must begin with `---`, `name: ...`, `description: ...`, `---`, each on a line of its own")
    front = checked(FrontMatter, load_mapping(head))
    try:
        instructions = prose(body)
    except ValueError as error:
        raise SkillFault(f"the instructions {error}") from None
    if not instructions:
        raise SkillFault("holds no instructions below the front matter")
    if len(instructions) > MAX_INSTRUCTIONS:
        raise SkillFault(f"the instructions are longer than {MAX_INSTRUCTIONS:,} characters")
    return front, instructions


def sha256_of(raw: dict[str, bytes]) -> str:
    lines = (f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in raw.items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()
