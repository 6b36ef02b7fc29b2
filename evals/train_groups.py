"""What the reranker learns from: groups of pairs of which the first is right, drawn the same for the same seed."""

import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from evals.obliqa import Asked, Rule
from evals.seed import HERE
from evals.train_invented import sample
from evals.train_lessons import LessonPairs, drawn
from service.knowledge.terms import terms_of

PAIRS = HERE / "golden" / "near_miss_pairs.jsonl"
NEGATIVES = 4
EASY_STEPS, MIXED_STEPS, RULEBOOK_STEPS = 50, 130, 500
"""Until these steps: easy negatives, one hard one, no lessons yet."""

QUESTIONS, LATER_QUESTIONS, TWINS, LESSONS = 4, 2, 1, 2
NEAR_DUPLICATE = 0.65
_NO_NAMES = ("An ", "The ", "Table ", "Abu ", "In ", "For ", "If ", "Where ")
_NAME = re.compile(r"\b[A-Z][a-z]+(?: [A-Z][a-z]+)+\b")


@dataclass(frozen=True, slots=True)
class Group:
    """Pairs of which the first is right and the others are wrong."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Example:
    """A question of the rulebooks with the passages that answer it and the hard negatives, hardest first."""

    question: str
    answers: tuple[int, ...]
    hard: tuple[int, ...]


@cache
def words_of(text: str) -> frozenset[str]:
    return frozenset(terms_of(text).split())


def alike(one: frozenset[str], two: frozenset[str]) -> float:
    """Share of common words: near-duplicates of an answer are answers that nobody labelled."""
    return len(one & two) / max(1, len(one | two))


def examples_of(asked: Sequence[Asked], rules: Sequence[Rule], found: Sequence[Sequence[int]]) -> list[Example]:
    """`found`: per question the candidates' indices, best first."""
    index_of = {rule.key: index for index, rule in enumerate(rules)}
    examples = []
    for question, candidates in zip(asked, found, strict=True):
        answers = tuple(sorted(index_of[key] for key in question.answers))
        right = [words_of(rules[index].text) for index in answers]
        hard = [
            index
            for index in candidates
            if index not in answers and all(alike(words_of(rules[index].text), w) < NEAR_DUPLICATE for w in right)
        ]
        examples.append(Example(question.question, answers, tuple(hard)))
    return examples


class Groups:
    """Draws the groups of each step, the same for the same seed and step."""

    def __init__(
        self,
        rules: Sequence[Rule],
        examples: Sequence[Example],
        samples: Sequence[Group],
        lessons: LessonPairs,
        seed: int,
    ) -> None:
        self._seed = seed
        self._rules = rules
        self._examples = examples
        self._samples = samples
        self._lessons = lessons
        # In the order of the text: a set's order is another one in each process, and so were the names drawn.
        counts = Counter(name for rule in rules for name in dict.fromkeys(_NAME.findall(rule.text)))
        self._names = [name for name, count in counts.most_common(160) if not name.startswith(_NO_NAMES)]

    def of(self, step: int) -> list[Group]:
        chance = random.Random(f"{self._seed}.{step}")
        early = step < RULEBOOK_STEPS
        chosen = [drawn(self._examples, turn) for turn in turns_of(step, QUESTIONS, LATER_QUESTIONS)]
        groups = [self._ranked(example, step, chance) for example in chosen]
        if early or step % 2:
            groups += [group for example in chosen if (group := self._twins(example, chance))][:TWINS]
            groups += [invented(chance)]
        if not early:
            later = step - RULEBOOK_STEPS
            turns = [later * LESSONS + i for i in range(LESSONS)]
            groups += [Group(self._lessons.passages(turn, chance)) for turn in turns]
            groups += [Group(self._lessons.twins(turn, chance)) for turn in turns]
            groups += self._samples[later % len(self._samples) :][: 1 - step % 2] if self._samples else []
        return groups

    def _ranked(self, example: Example, step: int, chance: random.Random) -> Group:
        hard = 0 if step < EASY_STEPS else 1 if step < MIXED_STEPS else NEGATIVES - 1
        pool = example.hard[: 12 if chance.random() < 0.5 else 40]
        wrong = chance.sample(pool, min(hard, len(pool)))
        while len(wrong) < NEGATIVES:
            index = chance.randrange(len(self._rules))
            if index not in example.answers:
                wrong.append(index)
        right = chance.choice(example.answers)
        with_path = chance.random() < 0.5
        texts = [self._rules[i].indexed_text if with_path else self._rules[i].text for i in (right, *wrong)]
        return Group(tuple((example.question, text) for text in texts))

    def _twins(self, example: Example, chance: random.Random) -> Group | None:
        """The same passage for questions in which one name was swapped for one that it does not hold."""
        right = self._rules[chance.choice(example.answers)]
        names = [name for name in set(_NAME.findall(example.question)) if name in right.text]
        wrong = []
        for name in sorted(names):
            others = [n for n in self._names if n not in right.indexed_text and n not in example.question]
            wrong += [example.question.replace(name, other) for other in chance.sample(others, min(2, len(others)))]
        chance.shuffle(wrong)
        if not wrong:
            return None
        return Group(tuple((question, right.text) for question in (example.question, *wrong[:2])))


def turns_of(step: int, early: int, later: int) -> range:
    """The turns of a step that draws `early` items until RULEBOOK_STEPS and `later` items from then on."""
    before, after = min(step, RULEBOOK_STEPS), max(0, step - RULEBOOK_STEPS)
    start = before * early + after * later
    return range(start, start + (later if step >= RULEBOOK_STEPS else early))


def invented(chance: random.Random) -> Group:
    made = sample(chance)
    wrong = [(question, made.passage) for question in made.wrong_questions]
    if chance.random() < 0.5:
        wrong = [(made.question, passage) for passage in made.wrong_passages]
    return Group(((made.question, made.passage), *wrong))


def sample_groups(path: Path = PAIRS) -> list[Group]:
    """The hand-written near misses of the part "train" with passages of the sample (see `train_pairs.py`)."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [Group(tuple((question, text) for question, text in row["pairs"])) for row in rows]
