"""Quote, the embedded answer model: no key, no network, and nothing in an answer that the sources do not say verbatim.

An answer is units of the graded sources (a sentence, a rule with its items), in quotation marks, each cited. The
cross-encoder that ships grades and judges; what needs language is done lexically. It counts no model calls: no language
model is asked.

Two thresholds part three outcomes. No passage reaches `relevant`: refused. One does, and none reaches `answers`: the
closest passages are quoted, and the verdict says that they may not answer (`partial`). One reaches `answers`: answered.
"""

from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass

from service.citations.grounding import missing_quotations
from service.llm import lexical
from service.llm.mismatch import mismatch
from service.llm.pieces import pieces
from service.model import ABSTAIN, ComponentState, Grade, Judgement, Passage, Source, Turn
from service.ports import Reranker
from service.usage import Usage


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Where Quote says yes, on the evidence scale 0..1 (see `Quote.evidence`).

    Set on the development half of the sample questions (`python -m evals seed --fit`): `answers` so that at most one
    unanswerable question in twenty is answered. `python -m evals seed` prints what they do on the other half. `quotes`
    is the most units in an answer, `margin` how far behind the best passage another may be.
    """

    relevant: float = 0.057
    answers: float = 0.417
    quotes: int = 3
    margin: float = 0.3


DEFAULT_THRESHOLDS = Thresholds()


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of a source that can be quoted by itself.

    `head` is what heads the table of which it is a row, else "".
    """

    source: Source
    text: str
    head: str = ""


def units_of(source: Source) -> Iterator[Unit]:
    """Yield what can be quoted of a source.

    The cells of a row are joined by spaces: on a line of its own, one that opens with "-" or ">" would be Markdown.
    """
    text = source.passage.text
    for piece in pieces(source.passage):
        said, head = text[piece.start : piece.end], text[slice(*piece.head)] if piece.head else ""
        yield Unit(source, said.replace("\n", " ") if piece.in_row else said, head.replace("\n", " "))


def unquotable(question: str, unit: Unit) -> bool:
    return lexical.unquotable(question, unit.text) or lexical.MARKER_LIKE.search(unit.head) is not None


def in_context(unit: Unit) -> str:
    """What is judged: the unit as a reader has it, below the headings of its page and of its table."""
    above = f"{unit.source.passage.context}\n{unit.head}" if unit.head else unit.source.passage.context
    return f"{above}\n{unit.text}"


class Quote:
    """The second implementation of `AnswerModel`. `scorer` gives 0..1 for (question, text) pairs."""

    name = "quote"
    warning = ""

    def __init__(self, scorer: Reranker, thresholds: Thresholds | None = None) -> None:
        self._scorer = scorer
        self._at = thresholds or DEFAULT_THRESHOLDS

    @property
    def thresholds(self) -> Thresholds:
        return self._at

    async def condense(self, turns: Sequence[Turn], question: str, usage: Usage) -> str:  # noqa: ARG002 - the port's
        if not turns or not lexical.is_follow_up(question):
            return question
        return lexical.carry_topic(turns[-1]["standalone"], question)

    async def web_query(self, question: str, tried: str, usage: Usage) -> str:  # noqa: ARG002 - the port's
        return lexical.web_query(question)

    async def grade(
        self,
        question: str,
        passages: Sequence[Passage],
        usage: Usage,  # noqa: ARG002
        hint: str = "",  # noqa: ARG002 - a scorer takes no advice
    ) -> list[Grade]:
        texts = [passage.indexed_text for passage in passages]
        scores = await self.evidence(question, texts)
        return [self.verdict_on(question, text, score) for text, score in zip(texts, scores, strict=True)]

    def verdict_on(self, question: str, text: str, score: float) -> Grade:
        """A figure, date or identifier that the question names and the passage does not makes it another rule."""
        absent = lexical.names(lexical.own_words(question)) - lexical.figures(text)
        if absent:
            return Grade("fail", f"does not name {', '.join(sorted(absent))}")
        if lexical.is_brief(question) and not lexical.coverage(question, text):
            return Grade("fail", "shares no word with a question that names nothing else")
        wrong = mismatch(question, text)
        if wrong:
            return Grade("fail", wrong)
        words = f"evidence {score:.2f}, needs {self._at.relevant}"
        return Grade("pass" if score >= self._at.relevant else "fail", words)

    async def rewrite(self, question: str, tried: str, seen: Sequence[Passage], usage: Usage) -> str:  # noqa: ARG002
        return lexical.enrich(question, tried, seen)

    async def answer(
        self,
        question: str,
        sources: Sequence[Source],
        feedback: str,  # noqa: ARG002 - a quote is not written anew
        usage: Usage,  # noqa: ARG002
        instructions: str = "",  # noqa: ARG002 - what is only quoted has no form to give
    ) -> AsyncGenerator[str, None]:
        chosen = await self.choose(question, sources)
        if not chosen:
            yield ABSTAIN
            return
        for index, unit in enumerate(chosen):
            gap = "\n\n" if index else ""
            yield gap + "\n\n".join(f"“{text}” [[{unit.source.n}]]" for text in (unit.head, unit.text) if text)

    async def judge_grounded(
        self,
        question: str,  # noqa: ARG002 - what was asked does not matter to what is verbatim
        answer: str,
        sources: Sequence[Source],
        usage: Usage,  # noqa: ARG002
    ) -> Judgement:
        missing = missing_quotations(answer, sources)
        return Judgement("fail", f"not verbatim: {missing[0]}") if missing else Judgement("pass", "verbatim")

    async def judge_answers(
        self,
        question: str,
        answer: str,
        sources: Sequence[Source],
        usage: Usage,  # noqa: ARG002
    ) -> Judgement:
        """Does the best of the passages that are quoted answer? A quote is read in its passage, below its headings.

        A greeting, a letter or a single word asks for nothing that a passage could be held against.
        """
        if lexical.is_vague(question):
            return Judgement("fail", "the question names too little to be answered")
        quoted = [source.passage.indexed_text for source in sources if f"[[{source.n}]]" in answer]
        score = max(await self.evidence(question, quoted), default=0.0)
        words = f"evidence {score:.2f}, needs {self._at.answers}"
        return Judgement("pass" if score >= self._at.answers else "fail", words)

    async def choose(self, question: str, sources: Sequence[Source]) -> list[Unit]:
        """The best unit of each of the best passages, at most `quotes`, in the sources' order.

        Of a passage's units those come first that hold the most of what the question names: the row beside the right
        one reads like it. A passage far behind the best one is left out: it misleads more than it helps.
        """
        best = await self.best_passages(question, sources)
        units = [unit for source in best for unit in units_of(source) if not unquotable(question, unit)]
        texts = list(map(in_context, units))
        named = lexical.names(question) | lexical.proper_names(question)
        held = [len(named & (lexical.figures(text) | set(lexical.words(text)))) for text in texts]
        found: dict[int, tuple[tuple[int, float], Unit]] = {}
        for unit, worth in zip(units, zip(held, await self.evidence(question, texts), strict=True), strict=True):
            n = unit.source.n
            if n not in found or worth > found[n][0]:
                found[n] = worth, unit
        return [found[source.n][1] for source in sources if source.n in found]

    async def best_passages(self, question: str, sources: Sequence[Source]) -> list[Source]:
        scores = await self.evidence(question, [source.passage.indexed_text for source in sources])
        ranked = sorted(zip(scores, sources, strict=True), key=lambda pair: -pair[0])[: self._at.quotes]
        return [source for score, source in ranked if score >= ranked[0][0] - self._at.margin]

    async def evidence(self, question: str, texts: Sequence[str]) -> list[float]:
        """How far each text speaks to the question, 0..1, calibrated: the share of such pairs in which it answers.

        The share of the question's terms that a text covers was weighed in as well; every weight but 0 refused worse.
        """
        return await self._scorer.scores(question, texts)

    def state(self) -> ComponentState:
        return ComponentState("model", True, f"quote (verbatim sentences only), scored by {self._scorer.name}")
