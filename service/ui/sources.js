/** Source cards: what was cited apart from what was only consulted. */

import { el, outward } from "./dom.js";
import { STATUSES, counted } from "./words.js";

/** `sources` is the thread's, by number: a number means the same source in every turn. */
export function sourcePanels(answer, sources) {
  const numbers = [...new Set(answer.citations.map(({ n }) => n))].filter((n) => sources.has(n)).sort((a, b) => a - b);
  const cited = numbers.map((n) => sourceCard(sources.get(n), answer.citations.filter((citation) => citation.n === n)));
  const ids = new Set(numbers.map((n) => sources.get(n).passage_id));
  const rest = answer.consulted.filter(({ passage_id }) => !ids.has(passage_id));
  const byPassage = new Map([...sources.values()].map((source) => [source.passage_id, source]));
  return [cited.length ? panel(`Cited (${cited.length})`, cited) : "", rest.length ? consultedPanel(rest, byPassage) : ""];
}

export function foundPanel(items) {
  return panel(`Sources found (${items.length})`, items.map((item) => sourceCard(item)));
}

function consultedPanel(items, byPassage) {
  const passed = ({ grade }) => grade === "pass";
  const ordered = [...items.filter(passed), ...items.filter((item) => !passed(item))];
  const rows = ordered.map((item) => {
    const source = byPassage.get(item.passage_id);
    return passed(item) && source ? sourceCard(source) : consultedRow(item);
  });
  const title = `Consulted, not cited: ${counted(items.length, "passage")}`;
  return el("details", {}, el("summary", {}, title), el("ul", { class: "cards" }, ...rows));
}

function consultedRow({ passage_id, title, label, grade }) {
  const stored = label === "WEB" ? "" : `/sources/${encodeURIComponent(passage_id)}`;
  const graded = { pass: "relevant", fail: "graded not relevant", error: "could not be graded" }[grade] ?? "not graded";
  return el("li", { class: "row", "data-label": label }, tag(label), " ", outward(stored, title), ` (${graded})`);
}

function panel(title, cards) {
  return el("section", {}, el("h3", {}, title), el("ul", { class: "cards" }, ...cards));
}

function sourceCard(source, citations = []) {
  const place = [source.section, source.page === null ? "" : `page ${source.page}`].filter(Boolean).join(", ");
  const read = source.fetched_at ? `read ${source.fetched_at.slice(0, 10)}` : "";
  const quotes = citations.length ? distinct(citations).map(citedQuote) : [quoted(source.quote)];
  return el(
    "li",
    { class: "card", "data-label": source.label },
    el("p", { class: "head" }, tag(source.label), ` ${source.n}. `, outward(source.link, source.title)),
    el("p", { class: "facts" }, [place, read].filter(Boolean).join(" · ")),
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

const tag = (label) => el("span", { class: "label" }, `[${label}]`);
const quoted = (text) => (text ? el("blockquote", {}, text) : "");
