/** Source cards, grouped by label: what was cited apart from what was only consulted. */

import { el, outward } from "./dom.js";
import { LABELS, STATUSES, counted, grade } from "./words.js";

/** `sources` is the thread's, by number: a number means the same source in every turn. */
export function sourcePanels(answer, sources) {
  const numbers = [...new Set(answer.citations.map(({ n }) => n))].filter((n) => sources.has(n)).sort((a, b) => a - b);
  const cited = numbers.map((n) => ({ label: sources.get(n).label, row: citedCard(n, answer.citations, sources) }));
  const ids = new Set(numbers.map((n) => sources.get(n).passage_id));
  const rest = answer.consulted.filter(({ passage_id }) => !ids.has(passage_id));
  return [cited.length ? panel("cited", `Cited (${cited.length})`, cited) : "", rest.length ? consultedPanel(rest, sources) : ""];
}

export function foundPanel(items) {
  const rows = items.map((item) => ({ label: item.label, row: card(item, [quoted(item.quote)]) }));
  return panel("found", `Sources found (${items.length})`, rows);
}

function citedCard(n, citations, sources) {
  const own = citations.filter((citation) => citation.n === n);
  return card(sources.get(n), distinct(own).map(citedQuote));
}

function consultedPanel(items, sources) {
  const byPassage = new Map([...sources.values()].map((source) => [source.passage_id, source]));
  const passed = ({ grade }) => grade === "pass";
  const ordered = [...items.filter(passed), ...items.filter((item) => !passed(item))];
  const rows = ordered.map((item) => {
    const source = byPassage.get(item.passage_id);
    const known = passed(item) && source;
    return { label: item.label, row: known ? card(source, [quoted(source.quote)]) : passageRow(item) };
  });
  const title = `Consulted, not cited: ${counted(items.length, "passage")}`;
  return el("details", { "data-part": "consulted" }, el("summary", {}, title), ...grouped(rows));
}

/** A passage without a number: its title opens our own copy of its page, which the web's pages do not have. */
export function passageRow({ passage_id, title, section = "", label, grade: result, words = "" }) {
  const stored = label === "WEB" ? "" : `/sources/${encodeURIComponent(passage_id)}#quote`;
  const place = section ? `, ${section}` : "";
  const said = words ? el("p", { class: "facts" }, words) : "";
  return el("li", { class: "row", "data-label": label }, tag(label), " ", outward(stored, title), `${place} (${grade(result)})`, said);
}

function panel(part, title, rows) {
  return el("section", { "data-part": part }, el("h3", {}, title), ...grouped(rows));
}

function grouped(rows) {
  const present = Object.keys(LABELS).filter((label) => rows.some((row) => row.label === label));
  return present.map((label) => {
    const own = rows.filter((row) => row.label === label).map(({ row }) => row);
    const head = el("p", { class: "group" }, tag(label), ` ${LABELS[label]}`);
    return el("div", { "data-label": label }, head, el("ul", { class: "cards" }, ...own));
  });
}

function card(source, quotes) {
  const place = [source.section, source.page === null ? "" : `page ${source.page}`].filter(Boolean).join(", ");
  const read = source.fetched_at ? `read ${source.fetched_at.slice(0, 10)}` : "";
  return el(
    "li",
    { class: "card", "data-label": source.label, "data-n": source.n },
    el("p", { class: "head" }, el("span", { class: "number" }, `${source.n}`), " ", outward(source.link, source.title)),
    el("p", { class: "facts" }, [`[${source.label}]`, place, read].filter(Boolean).join(" · ")),
    ...quotes,
  );
}

function citedQuote({ n, quote, link, status }) {
  const name = `Open at this sentence, source ${n}: ${quote.slice(0, 60)}`;
  const open = quote ? outward(link, "Open at this sentence", { "aria-label": name }) : "";
  return el("div", { class: `quote ${status}` }, quoted(quote), el("p", { class: "facts" }, `${STATUSES[status]} `, open));
}

function distinct(citations) {
  return [...new Map(citations.map((citation) => [`${citation.status} ${citation.quote}`, citation])).values()];
}

export const tag = (label) => el("span", { class: "label", "data-label": label }, `[${label}]`);
const quoted = (text) => (text ? el("blockquote", {}, text) : "");
