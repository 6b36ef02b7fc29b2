"""A model that knows the labels of the golden set, with faults that are drawn from a seed.

Its judgements are right but for `errors`, the share that is turned round. Its writing has faults of its own, the same
for every design: without them no check would have anything to find. Each draw depends on the seed, the case and what is
asked, never on the design: where two designs ask the same thing they get the same answer, so that they can be compared
in pairs, and a judge that was wrong is wrong again when it is asked again.

A grader is as lenient as the published ones: it passes whatever stands on a page that holds the answer.
"""

import re
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Self

from evals.designs.clock import Clock, call_s
from evals.designs.port import EVERY_ABILITY, Ability, Fork
from evals.designs.topics import folder_of
from evals.designs.truth import has_evidence, states_the_answer, unsupported
from evals.golden_set import Case
from evals.seed import fold
from service.knowledge.sentences import sentences
from service.llm import lexical
from service.llm.pricing import cost_usd
from service.model import ABSTAIN, ComponentState, Grade, Judgement, Passage, Source, Turn
from service.usage import ModelCall, Usage

WRITER, GATE = "claude-sonnet-5-5", "claude-haiku-5-5"
"""Whose prices its tokens cost: of the writer, and of the small model that does everything else."""

PROMPT_TOKENS = 400
CHARS_PER_TOKEN = 4
SENTENCE_WORDS = 5
INVENTED = "The figure is MC 7,777 and the period is 77 days"
"""A statement that no source makes."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Shares of 0..1. `errors` is the judges'; the others are the writer's, and what they leave is done right.

    A writer with the answer before it `invents` something else. One without abstains, but for what it `guesses` (says
    what no source says) and `misreads` (says what another source says of something else). `distorts` is the share of
    bullets that change what they rewrite.
    """

    errors: float = 0.0
    invents: float = 0.1
    guesses: float = 0.3
    misreads: float = 0.3
    distorts: float = 0.1


@dataclass(frozen=True, slots=True)
class Asked:
    name: str
    about: str
    temperature: float | None


@dataclass
class Scripted:
    """`DesignModel` for one run of one case. `nearest` is the folder of the passage that comes first for the case."""

    case: Case
    nearest: str
    seed: int = 1
    faults: Faults = field(default_factory=Faults)
    clock: Clock = field(default_factory=Clock)
    temperature: float | None = None
    asked: list[Asked] = field(default_factory=list)
    name: str = "scripted"
    warning: str = ""
    can: frozenset[Ability] = EVERY_ABILITY

    def at(self, temperature: float) -> Self:
        return replace(self, temperature=temperature)

    def state(self) -> ComponentState:
        return ComponentState("model", True, "scripted, knows the labels")

    # Draws

    def _draw(self, *parts: str) -> float:
        """A number of 0..1 that depends on seed, case and parts alone."""
        digest = sha256("\0".join([str(self.seed), self.case.id, *parts]).encode()).digest()
        return int.from_bytes(digest[:6], "big") / 2**48

    def _judged(self, right: bool, name: str, about: str) -> bool:
        """The right judgement, turned round for the share of `errors`."""
        return right != (self._draw("error", name, about) < self.faults.errors)

    async def _call(self, usage: Usage, name: str, about: str, read: str, written: str = "{}", by: str = GATE) -> None:
        usage.call(name)
        self.asked.append(Asked(name, about, self.temperature))
        tokens = PROMPT_TOKENS + len(read) // CHARS_PER_TOKEN, 10 + len(written) // CHARS_PER_TOKEN
        taken_s = call_s(*tokens)
        async with self.clock.taking(taken_s):
            cost = cost_usd(by, *tokens)
            usage.spend(ModelCall(name, by, "", 0.0, taken_s * 1000, *tokens, cost, "end_turn"))

    # What the product asks

    async def condense(self, turns: Sequence[Turn], question: str, usage: Usage) -> str:
        await self._call(usage, "condense", question, question + "".join(turn["answer"] for turn in turns), question)
        return standalone(self.case) if turns else question

    async def web_query(self, question: str, tried: str, usage: Usage) -> str:
        query = lexical.web_query(question)
        await self._call(usage, "web_query", question, question + tried, query)
        return query

    async def grade(self, question: str, passages: Sequence[Passage], usage: Usage, hint: str = "") -> list[Grade]:
        await self._call(usage, "grade", question, question + hint + "".join(p.text for p in passages))
        return [self._grade(passage) for passage in passages]

    def _grade(self, passage: Passage) -> Grade:
        said = self._judged(self._relevant(passage), "grade", passage.passage_id)
        return Grade("pass" if said else "fail", "relevant" if said else "not relevant")

    def _relevant(self, passage: Passage) -> bool:
        return any(expected.address == passage.address for expected in self.case.expected)

    async def rewrite(self, question: str, tried: str, seen: Sequence[Passage], usage: Usage) -> str:
        query = lexical.enrich(question, tried, seen)
        await self._call(usage, "rewrite", tried, question + tried + "".join(p.text[:300] for p in seen), query)
        return query

    async def answer(
        self, question: str, sources: Sequence[Source], feedback: str, usage: Usage, instructions: str = ""
    ) -> AsyncGenerator[str, None]:
        text = self._draft(sources)
        read = question + feedback + instructions + "".join(source.passage.text for source in sources)
        await self._call(usage, "answer", question, read, text, WRITER)
        yield text

    async def judge_grounded(self, question: str, answer: str, sources: Sequence[Source], usage: Usage) -> Judgement:
        await self._call(usage, "judge_grounded", answer, question + answer + "".join(s.passage.text for s in sources))
        said = self._judged(not self._unsupported(answer, sources), "grounded", answer)
        return Judgement("pass", "supported") if said else Judgement("fail", "states what no source says")

    async def judge_answers(self, question: str, answer: str, sources: Sequence[Source], usage: Usage) -> Judgement:
        await self._call(usage, "judge_answers", f"{answer} ({len(sources)} sources)", question + answer)
        said = self._judged(states_the_answer(answer, self.case), "answers", answer)
        return Judgement("pass", "answers") if said else Judgement("fail", "does not answer")

    # What only the designs ask

    async def route(self, question: str, fork: Fork, usage: Usage) -> str:
        await self._call(usage, "route", question, question + "".join(topic.words for topic in fork.topics))
        right = self._way(fork)
        if self._judged(True, "route", right):
            return right
        others = [way for way in fork.ways if way != right]
        return others[int(self._draw("way", right) * len(others))]

    def _way(self, fork: Fork) -> str:
        """The store where a listed topic covers the question; small talk is answered directly where that is a way."""
        if self.case.kind == "small-talk" and "direct" in fork.ways:
            return "direct"
        if self.case.kind in ("out-of-scope", "small-talk", "web-only"):
            return fork.doubt
        folders = {folder_of(expected.address) for expected in self.case.expected} or {self.nearest}
        return "store" if folders <= {topic.folder for topic in fork.topics} else fork.doubt

    async def direct(self, question: str, usage: Usage) -> str:
        await self._call(usage, "direct", question, question, INVENTED, WRITER)
        return f"{INVENTED}."

    async def bullets(self, question: str, passage: Passage, usage: Usage) -> str:
        text = self._bullets(passage)
        await self._call(usage, "bullets", question, question + passage.text, text)
        return text

    def _bullets(self, passage: Passage) -> str:
        """What bears on the question, in the passage's words; a distorted one has other figures, or stops half way."""
        held = [e.text for e in self.case.expected if fold(e.text) in fold(passage.text)]
        facts = [fact for fact in self.case.facts if fold(fact) in fold(passage.text)]
        lines = [*held, *facts] if held else first_sentences(passage.text, 2)
        if self._draw("distort", passage.passage_id) < self.faults.distorts:
            lines = [distorted(line) for line in lines]
        return "\n".join(f"- {line}" for line in lines)

    async def score(self, question: str, passage: Passage, usage: Usage) -> float:
        """0.9 for a passage that answers, 0.5 for one of its page, 0.1 for any other."""
        await self._call(usage, "score", question, question + passage.text)
        right = 0.9 if has_evidence(passage.text, passage.address, self.case) else 0.5
        right = right if self._relevant(passage) else 0.1
        if self._judged(True, "score", passage.passage_id):
            return right
        return 0.9 if right < 0.3 else 0.1

    async def grade_set(self, question: str, passages: Sequence[Passage], usage: Usage) -> Grade:
        await self._call(usage, "grade_set", question, question + "".join(p.text for p in passages))
        about = " ".join(sorted(passage.passage_id for passage in passages))
        said = self._judged(any(self._relevant(passage) for passage in passages), "grade_set", about)
        return Grade("pass" if said else "fail")

    async def hallucinated(self, answer: str, sources: Sequence[Source], usage: Usage) -> str:
        await self._call(usage, "hallucinated", answer, answer + "".join(s.passage.text for s in sources))
        # The same draw as `judge_grounded`: the same judge, asked the other way round.
        return "no" if self._judged(not self._unsupported(answer, sources), "grounded", answer) else "yes"

    def _unsupported(self, answer: str, sources: Sequence[Source]) -> bool:
        return unsupported(answer, [source.passage.text for source in sources], self.case.question)

    # Writing

    def _draft(self, sources: Sequence[Source]) -> str:
        """A further draft over the evidence is drawn anew; one over nothing is as the first (the same prompt)."""
        drafts = Counter(call.name for call in self.asked)["answer"]
        if stated := self._stated(sources):
            wrong = self._draw("invent", str(drafts)) < self.faults.invents
            return self._invention(sources) if wrong else stated
        draw = self._draw("without evidence")
        if draw < self.faults.guesses:
            return self._invention(sources)
        if sources and draw < self.faults.guesses + self.faults.misreads:
            return self._misreading(sources)
        return ABSTAIN

    def _stated(self, sources: Sequence[Source]) -> str:
        """What the labels call the answer, as far as the sources before it hold it, each part cited."""
        parts = []
        for source in sources:
            held = [e for e in self.case.expected if e.address == source.passage.address and e.is_in(source.passage)]
            if held:
                facts = [fact for fact in self.case.facts if fold(fact) in fold(source.passage.text)]
                parts.append(f"{'; '.join([e.text.rstrip('.;:,') for e in held] + facts)} [[{source.n}]].")
        return "\n\n".join(dict.fromkeys(parts))

    def _invention(self, sources: Sequence[Source]) -> str:
        return f"{INVENTED} [[{sources[0].n}]]." if sources else f"{INVENTED}."

    def _misreading(self, sources: Sequence[Source]) -> str:
        """The near miss where one is before it, else the first sentence of the first source."""
        for source in sources:
            for wrong in self.case.forbidden:
                if fold(wrong) in fold(source.passage.text):
                    return f"It is {wrong} [[{source.n}]]."
        said = first_sentences(sources[0].passage.text, 1)[0].rstrip(".")
        return f"{said} [[{sources[0].n}]]."


def standalone(case: Case) -> str:
    """The case's question with the topic of its history. The six know no history, so they are asked this too."""
    if case.history and lexical.is_follow_up(case.question):
        return lexical.carry_topic(case.history[-1][0], case.question)
    return case.question


def first_sentences(text: str, count: int) -> list[str]:
    """The first sentences of a text that say something: a rule's number alone does not."""
    said = [" ".join(text[start:end].split()) for start, end in sentences(text)]
    return [sentence for sentence in said if len(sentence.split()) >= SENTENCE_WORDS][:count] or [text]


def distorted(text: str) -> str:
    changed = re.sub(r"\d+", "77", text)
    return changed if changed != text else " ".join(text.split()[: len(text.split()) // 2])
