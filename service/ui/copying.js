/** An answer as Markdown, with its sources, on the clipboard. */

import { STATUSES, verdict } from "./words.js";

export async function copyAnswer(question, answer, sources) {
  const text = asMarkdown(question, answer, sources);
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copiedBySelection(text); // a page over plain http has no clipboard of its own
  }
}

/**
 * An escape that stands there already, or what would begin HTML, an image, a link's target or a definition: a program that
 * renders the copy loads nothing that a model or a page wrote. In code the backslash shows; bare addresses stay.
 */
const LIVE = /\\[!-/:-@[-`{-~]|<(?=[A-Za-z/!?])|!(?=\[)|\](?=[(:[])/g;
const inert = (text) => text.replace(LIVE, (found) => (found.length > 1 ? found : `\\${found}`));

/** The answer's own text between its question and its sources, with what would load or lead away made inert. */
export function asMarkdown(question, answer, sources) {
  const gates = answer.verdicts.filter(({ gate }) => gate !== "documents");
  const last = [...new Map(gates.map((one) => [one.gate, verdict(one)])).values()];
  const asked = `> ${inert(question).replaceAll("\n", "\n> ")}`;
  const parts = [asked, answer.warning && `**${answer.warning}**`, inert(answer.answer), last.join(" · ")];
  const cited = answer.citations.map((citation) => sourceLine(citation, sources.get(citation.n))).filter(Boolean);
  const list = [...new Set(cited)].join("\n");
  return [...parts, list && `Sources:\n\n${list}`].filter(Boolean).join("\n\n") + "\n";
}

function sourceLine({ n, quote, link, status }, source) {
  if (!source) return "";
  const place = [source.title, source.section, source.page === null ? "" : `page ${source.page}`].filter(Boolean).join(", ");
  const read = source.fetched_at ? `, read ${source.fetched_at.slice(0, 10)}` : "";
  const said = `${inert(`${place}${read}: “${quote}”`)} (${STATUSES[status]})`;
  return `- [[${n}]] [${source.label}] ${said} <${link}> sha256 ${source.sha256}`;
}

function copiedBySelection(text) {
  const area = document.createElement("textarea");
  const focused = document.activeElement;
  area.value = text;
  area.className = "unseen";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return done;
}
