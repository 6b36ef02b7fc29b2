"""The skills of this installation, read once at start. A request names one by its key here, never by a path."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from service.errors import InvalidRequest, SkillFault, UnknownSkill
from service.printable import on_one_line
from service.skills.folder import read_skill
from service.skills.skill import NO_SKILL, Skill

NAMES_TOLD = 20
SHOWN = 80
"""Characters of a folder's name that are shown: it may hold anything but a slash."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A folder that is no usable skill, and what to mend."""

    folder: str
    reason: str


class Skills:
    """Looks skills up by name. The broken ones are kept for the report; they disable none of the others."""

    def __init__(self, skills: Iterable[Skill] = (), broken: Iterable[Broken] = ()) -> None:
        self._skills = {skill.name: skill for skill in sorted(skills, key=lambda skill: skill.name)}
        self.broken = tuple(broken)

    @classmethod
    def load(cls, folder: Path, *, optional: bool = False) -> "Skills":
        """Read every folder in `folder`, which may be missing where it is `optional`.

        Raises `SkillFault` when `folder` itself cannot be listed.
        """
        if optional and not folder.exists():
            return cls()
        good: list[Skill] = []
        broken: list[Broken] = []
        for place in folders_in(folder):
            try:
                good.append(read_skill(place))
            except SkillFault as fault:
                broken.append(Broken(on_one_line(place.name)[:SHOWN], str(fault)))
        return cls(good, broken)

    def __iter__(self) -> Iterator[Skill]:
        return iter(self._skills.values())

    def __len__(self) -> int:
        return len(self._skills)

    def get(self, name: str) -> Skill:
        """Raises `UnknownSkill`, in the same words for an unknown name and for what can be no name."""
        skill = self._skills.get(name)
        if skill is None:
            raise UnknownSkill(f"There is no such skill. {self._there_are()}")
        return skill

    def chosen(self, name: str | None, question: str) -> tuple[Skill, str]:
        """The skill that a request asks for, by its field or by `/name `, and the question without the latter.

        Raises `UnknownSkill`, or `InvalidRequest` where the two differ or nothing is asked.
        """
        invoked, rest = invocation(question)
        if name is not None and invoked and invoked != name:
            self.get(name)
            raise InvalidRequest("question: it begins with the name of another skill than `skill` names. Give one.")
        named = invoked or name
        skill = NO_SKILL if named is None else self.get(named)
        if not any(character.isalnum() for character in rest):
            raise InvalidRequest(f"question: nothing is asked after /{skill.name}. Write the question behind it.")
        return skill, rest

    def _there_are(self) -> str:
        if not self._skills:
            return "No skill is installed here."
        names = list(self._skills)
        more = f" and {len(names) - NAMES_TOLD} more (GET /skills)" if len(names) > NAMES_TOLD else ""
        return f"There are: {', '.join(names[:NAMES_TOLD])}{more}."


def invocation(question: str) -> tuple[str | None, str]:
    """Split `/name question`. What has no letter or digit right after the slash is a question like any other.

    A name that no skill has is not let through as a question: it would run without the limits that were meant.
    """
    word, *rest = question.split(maxsplit=1) or [""]
    if len(word) < 2 or word[0] != "/" or not word[1].isalnum():
        return None, question
    return word[1:], rest[0] if rest else ""


def folders_in(folder: Path) -> list[Path]:
    """The candidates: every folder, and every link, that is not hidden; loose files are no one's skill."""
    try:
        places = [place for place in sorted(folder.iterdir()) if not place.name.startswith(".")]
        return [place for place in places if place.is_dir() or place.is_symlink()]
    except OSError as error:
        raise SkillFault(f"{folder} cannot be read ({error.strerror}). Set SKILLS_DIR to a folder of skills.") from None
