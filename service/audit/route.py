"""A run's record as text that a reviewer can follow: what came back, how it was graded, which way each fork went."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from service.printable import on_one_line
from service.record import StoredRecord

WIDTH = 110

FORKS: Mapping[tuple[str, str], str] = {
    ("grade_documents", "assemble_sources"): "at least one passage was relevant, so an answer was written",
    ("grade_documents", "rewrite_query"): "nothing relevant came back, so the query was rewritten",
    ("grade_documents", "give_up"): "nothing relevant came back and no rewrite was left, so nothing was shown",
    ("generate", "reflect"): "the draft went to the judges",
    ("generate", "give_up"): "the writer found nothing to say in the sources, so it refused",
    ("reflect", "finalize"): "the draft was shown",
    ("reflect", "prepare_regen"): "the draft was not grounded, so it was withdrawn and written anew",
    ("reflect", "rewrite_query"): "the draft missed the question, so the query was rewritten",
    ("reflect", "give_up"): "the draft did not pass, so it was not shown",
}
OUTCOMES: Mapping[str, str] = {
    "answered": "answered: both gates passed",
    "partial": "partial: shown with a warning",
    "refused": "refused",
    "cancelled": "cancelled",
    "deadline": "stopped at its deadline (RUN_DEADLINE_S)",
    "error": "ended in an error",
}
STOPPERS: Mapping[str, str] = {
    "person": "by the person",
    "reader_left": "since the reader left",
    "shutdown": "since the service was stopped",
}


def route(records: Sequence[StoredRecord]) -> str:
    """The text of a run's record, with the feedback, the scores and the erasure that came after it."""
    run, *later = records
    lines = [*_opening(run), *_passes(run.body), *_drafts(run.body), *_ending(run.body), *_facts(run.body)]
    for record in later:
        lines += ["", *_afterwards(record)]
    return "\n".join(on_one_line(line) for line in lines) + "\n"


def _opening(run: StoredRecord) -> Iterator[str]:
    body = run.body
    yield f"Run {body['run_id']}, record {run.seq} of the audit log ({run.hash[:16]})"
    yield f"Asked by {body['client']} at {body['asked_at']} in thread {body['thread_id']}{_skill(body)}"
    yield from _text("Question", body["question"])
    if body["standalone"] and body["standalone"] != body["question"]:
        yield from _text("Stands alone as", body["standalone"])
    web = "on" if body["web_search"] else "off"
    yield f"Web search: {web}. Delivery: {body['delivery']}. May read: {_filter(body)}."


def _skill(body: Mapping[str, Any]) -> str:
    skill = body["skill"]
    return f", skill {skill['name']} {skill['sha256'][:12]}" if skill else ""


def _filter(body: Mapping[str, Any]) -> str:
    lists = {name: of for name, of in body["filter"].items() if isinstance(of, list)}
    parts = [f"{name} {', '.join(of) or 'none'}" for name, of in lists.items()]
    parts += [] if body["filter"]["web"] else ["the web is forbidden"]
    return "; ".join(parts) or "everything"


def _passes(body: Mapping[str, Any]) -> Iterator[str]:
    for number, one in enumerate(body["passes"], start=1):
        yield ""
        yield f"Retrieval {number} (attempt {one['attempt']})"
        yield from _text("  Query", one["query"])
        yield from _candidates(one)
        yield from _web(one["web"])
        yield from _grades(one)
        yield from _forks(body, one["attempt"], "grade_documents")


def _candidates(one: Mapping[str, Any]) -> Iterator[str]:
    found = one["candidates"]
    yield f"  {len(found)} passages came back (the reranker's score, the search's score):"
    ranked = sorted(found, key=lambda c: -1.0 if c["reranked"] is None else c["reranked"], reverse=True)
    for candidate in ranked:
        reranked = "   -  " if candidate["reranked"] is None else f"{candidate['reranked']:.4f}"
        yield f"    {reranked}  {candidate['found']:.4f}  {_place(candidate)}"


def _web(web: Mapping[str, Any] | None) -> Iterator[str]:
    if web is None:
        return
    left = f"“{web['query']}” left for the web" if web["query"] else "nothing left for the web"
    if web["status"] == "unfinished":
        left += f"; stopped while the web was asked about “{web['asked']}”"
    yield f"  Web: {web['status']}; {left}"
    for strip in web["strips"]:
        yield f"    {strip['found']:.4f}  {_place(strip)}"


def _grades(one: Mapping[str, Any]) -> Iterator[str]:
    yield f"  {len(one['grades'])} graded, {len(one['kept'])} kept:"
    for grade in one["grades"]:
        yield f"    {grade['result']:<5} [{grade['label']}] {_place(grade)}"
        yield from _text("          judge", grade["words"])


def _place(item: Mapping[str, Any]) -> str:
    section = f" {item['section']}" if item["section"] else ""
    return f"{item['passage_id']}  {item['title']}{section}  sha256 {item['sha256'][:12]}"


def _forks(body: Mapping[str, Any], attempt: int, *after: str) -> Iterator[str]:
    caps = body["caps"]
    for fork in body["forks"]:
        if fork["attempt"] != attempt or fork["after"] not in after:
            continue
        used = f"rewrites {fork['rewrites']} of {caps['max_rewrites']}"
        used += f", new drafts {fork['regens']} of {caps['max_regen']} used"
        why = FORKS.get((fork["after"], fork["to"]), "")
        yield f"  => {fork['after']} -> {fork['to']}: {why} (reason {fork['reason'] or 'none'}; {used})"


def _drafts(body: Mapping[str, Any]) -> Iterator[str]:
    if body["sources"]:
        yield ""
        yield "Sources shown:"
        for source in body["sources"]:
            yield f"  [[{source['n']}]] {_place(source)}  {source['source']} {source['address']}"
    for draft in body["drafts"]:
        yield ""
        yield f"Draft (attempt {draft['attempt']}){_oddities(draft)}"
        yield from _text("  ", draft["text"])
        yield from _forks(body, draft["attempt"], "generate")
        for verdict in body["verdicts"]:
            if verdict["attempt"] == draft["attempt"] and verdict["gate"] != "documents":
                yield f"  {verdict['gate']}: {verdict['result']} ({verdict['reason']})"
                yield from _text("    judge", verdict["words"])
        yield from _forks(body, draft["attempt"], "reflect")


def _oddities(draft: Mapping[str, Any]) -> str:
    said = []
    if draft["abstained"]:
        said.append("the writer abstained")
    if draft["cut"]:
        said.append(f"cut short: {draft['cut']}")
    if draft["unresolved"]:
        said.append(f"cites what is no source: {', '.join(draft['unresolved'])}")
    return ": " + "; ".join(said) if said else ""


def _ending(body: Mapping[str, Any]) -> Iterator[str]:
    ending = body["ending"]
    by = STOPPERS.get(ending["stopped_by"], "")
    code = f", code {ending['code']}: {ending['message']}" if ending["code"] else ""
    yield ""
    yield f"End: {' '.join(filter(None, [OUTCOMES[ending['outcome']], by]))}{code}"
    for warning in body.get("warnings", []):  # of the first versions' records none
        yield f"  Told on the way: {warning}"
    if body["warning"]:
        yield f"  Warning shown: {body['warning']}"
    yield from _text("Answer" if body["complete"] else "Shown by then (not a complete answer)", body["answer"])
    for citation in body["citations"]:
        yield f"  [[{citation['n']}]] {citation['status']}, support {citation['support']:.3f}"
        yield from _text("      quote", citation["quote"])


def _facts(body: Mapping[str, Any]) -> Iterator[str]:
    installation, usage = body["installation"], body["usage"]
    yield ""
    yield f"Model {body['model']}; reranker {installation['reranker']} {installation['reranker_sha256'][:12]}".rstrip()
    yield f"Embedder {installation['embedder']}; Gatehouse {installation['version']}"
    yield "Prompts: " + (", ".join(f"{name} {sha[:12]}" for name, sha in body["prompts"].items()) or "none")
    yield "Settings: " + ", ".join(f"{name}={value}" for name, value in installation["settings"].items() if value != "")
    yield f"Usage: {usage['model_calls']} model calls, {usage['input_tokens']} + {usage['output_tokens']} tokens, " + (
        f"{usage['cost_usd']} USD"
    )
    yield "Milliseconds: " + ", ".join(f"{node} {ms:g}" for node, ms in body["timings"].items())


def _afterwards(record: StoredRecord) -> Iterator[str]:
    body = record.body
    if record.kind == "feedback":
        yield f"Feedback at {record.at} (record {record.seq}): thumbs {body['thumbs']}"
        yield from _text("  Comment", body["comment"])
    elif record.kind == "score":
        yield from _scores(record)
    elif record.kind == "erasure":
        yield f"The conversation was erased by {body['client']} at {record.at} (record {record.seq})"


def _scores(record: StoredRecord) -> Iterator[str]:
    body = record.body
    masked = ", private parts masked" if body["masked"] else ""
    yield f"Scored at {record.at} (record {record.seq}) by {body['judge']['model']}{masked}"
    for score in body["scores"]:
        yield f"  {score['name']} {score['value']:.2f} ({score['detail']})"
        yield from _text("    judge", score["words"])
    for missing in body["missing"]:
        yield f"  {missing['name']}: none ({missing['code']})"


def _text(label: str, text: str) -> Iterator[str]:
    """A labelled text, folded; nothing for an empty one. Its bar says that a line is none of the route's own."""
    if not text:
        return
    indent = " " * (len(label) - len(label.lstrip()) + 2) + "| "
    start = f"{label}: " if label.strip() else f"{label}| "
    for number, line in enumerate(text.split("\n")):
        first = start if number == 0 else indent
        yield from textwrap.wrap(
            line, WIDTH, initial_indent=first, subsequent_indent=indent, break_long_words=False
        ) or [""]
