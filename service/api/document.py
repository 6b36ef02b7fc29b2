"""A conversation as a Markdown document: what was asked, what was answered, what each gate said, and the sources."""

from collections.abc import Iterable, Mapping, Sequence

from service.api.events import CitationItem, SourceItem
from service.api.present import Presenter
from service.citations.markdown import address, footnoted, plain, plain_lines, quoted
from service.model import StoredSource, StoredVerdict, Turn, well_formed
from service.threads import ThreadSummary

LEGEND = (
    "In the answers a number such as \\[^1\\] cites the source of that number, the same all through the conversation. "
    "A citation is *verified* where what its sentence quotes stands word for word in the source, *supported* where the "
    "sentence quotes nothing (or a term of one or two words, which proves nothing of what is said about it) and the "
    "source bears it out, else *unsupported*."
)


def document(
    thread: ThreadSummary, turns: Mapping[int, Turn], sources: Sequence[StoredSource], presenter: Presenter
) -> str:
    """Return the document. `turns` go by their number in the thread; `sources` holds all that they cite."""
    by_number = {source["n"]: source for source in sources}
    shown = [presenter.source(source) for source in sources]
    parts = [f"# {plain(thread.title)}", listed(thread_facts(thread)), LEGEND]
    for number, turn in turns.items():
        citations = [presenter.citation(citation, by_number[citation["n"]]) for citation in turn["citations"]]
        parts += turn_parts(number, turn, citations)
    if shown:
        parts += ["## Sources", *(part for source in shown for part in source_parts(source, cited_in(source.n, turns)))]
    # At the very end: a program that knows no footnotes shows them as the short list of sources.
    parts += [footnote(source) for source in shown]
    return "\n\n".join(part for part in parts if part) + "\n"


def thread_facts(thread: ThreadSummary) -> Iterable[str]:
    yield f"Conversation: {plain(thread.thread_id)}"
    if thread.skill:
        yield f"Skill: {plain(thread.skill)}"
    yield f"Begun: {plain(thread.created_at)}"
    yield f"Last asked: {plain(thread.updated_at)}"


def turn_parts(number: int, turn: Turn, citations: Sequence[CitationItem]) -> list[str]:
    return [
        f"## Question {number}",
        quoted(plain_lines(turn["question"])),
        listed(turn_facts(turn)),
        f"### Answer {number}",
        f"**Warning:** {plain(turn['warning'])}" if turn["warning"] else "",
        quoted(footnoted(well_formed(turn["answer"]))),
        f"### Citations of answer {number}" if citations else "",
        *(citation_part(citation) for citation in citations),
    ]


def turn_facts(turn: Turn) -> Iterable[str]:
    yield f"Asked: {plain(turn['asked_at'])}"
    yield f"Run: {plain(turn['run_id'])}"
    yield f"Model: {plain(turn['model'])}; ranking: {plain(turn['reranker'])}"
    yield f"Web search: {'on' if turn['web_search'] else 'off'}, {turn['web']['status']}"
    for query in turn["web"]["sent"]:
        yield f"Sent to the web: {plain(query)}"
    yield f"Status: {turn['status']}, after {1 + turn['rewrites'] + turn['regens']} attempt(s)"
    for verdict in turn["verdicts"]:
        yield f"Gate {verdict['gate']}: {verdict_words(verdict)}"


def verdict_words(verdict: StoredVerdict) -> str:
    said = "not assessed (error)" if verdict["result"] == "error" else verdict["result"]
    return f"{said}, {plain(verdict['reason'])}" if verdict["reason"] else said


def citation_part(citation: CitationItem) -> str:
    head = f"[^{citation.n}] {citation.status}, support {citation.support:.2f}: {address(citation.link)}"
    return "\n\n".join([head, quoted(plain_lines(citation.quote))] if citation.quote else [head])


def source_parts(source: SourceItem, answers: Sequence[int]) -> list[str]:
    return [f"### Source {source.n}", listed(source_facts(source, answers)), quoted(plain_lines(source.quote))]


def source_facts(source: SourceItem, answers: Sequence[int]) -> Iterable[str]:
    yield f"Label: {source.label}"
    yield f"Title: {plain(source.title)}"
    if source.section:
        yield f"Section: {plain(source.section)}"
    if source.page is not None:
        yield f"Page: {source.page}"
    yield f"Address: {address(source.url)}"
    yield f"Opens at: {address(source.link)}"
    yield f"Read: {plain(source.fetched_at)}"
    yield f"SHA-256 of the page as read: {plain(source.sha256)}"
    yield f"Cited in answer {', '.join(map(str, answers))}" if answers else "Consulted, not cited"


def cited_in(n: int, turns: Mapping[int, Turn]) -> list[int]:
    return [number for number, turn in turns.items() if any(citation["n"] == n for citation in turn["citations"])]


def footnote(source: SourceItem) -> str:
    place = ", ".join([plain(source.title), *([plain(source.section)] if source.section else [])])
    return f"[^{source.n}]: \\[{source.label}\\] {place}. {address(source.link)}"


def listed(facts: Iterable[str]) -> str:
    return "\n".join(f"- {fact}" for fact in facts)
