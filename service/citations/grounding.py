"""What can be said of a draft's quotations without a model."""

from collections.abc import Sequence

from service.citations.quotation_marks import is_term, quotations
from service.citations.quotes import find_verbatim, page_spans, stands_verbatim
from service.citations.statements import Statement, statements
from service.model import Passage, Source, Span


def missing_quotations(answer: str, sources: Sequence[Source]) -> list[str]:
    """Return each quotation of `answer` that stands in none of the sources its statement cites.

    A statement that cites nothing is held against all the sources. Terms are left out.
    """
    texts = {source.n: source.passage.text for source in sources}
    missing: list[str] = []
    for statement in statements(answer):
        held_against = cited_texts(statement, texts)
        missing += [
            quote
            for quote in quotations(statement.text)
            if not is_term(quote) and not any(stands_verbatim(quote, text) for text in held_against)
        ]
    return missing


def cited_texts(statement: Statement, texts: dict[int, str]) -> list[str]:
    if not statement.numbers:
        return list(texts.values())
    return [texts[n] for n in statement.numbers if n in texts]


def quote_spans(quote: str, blocks: Sequence[str], spans: Sequence[Span]) -> list[Span]:
    """Where `quote` stands in a passage (the `spans` of its page's `blocks`); the whole passage where it does not."""
    text = "\n".join(blocks[span.block][span.start : span.end] for span in spans)
    place = find_verbatim(quote, text)
    if place is None:
        return list(spans)
    passage = Passage("", "", "", "official", "", "", "", (), "", text, tuple(spans), "")
    return list(page_spans(passage, *place))
