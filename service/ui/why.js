/** Why an answer is as it is: its run's record, read when someone asks. A reviewer follows the way through the gates. */

import { readRun } from "./api.js";
import { diagram } from "./diagram.js";
import { button, el } from "./dom.js";
import { stepsOf } from "./route.js";
import { passageRow } from "./sources.js";
import * as words from "./words.js";

const CLOSEST = 5;

export function whyPanel(runId) {
  const body = el("div", { class: "record" });
  const panel = el("details", { class: "why" }, el("summary", {}, "Why this answer"), body);
  panel.addEventListener("toggle", () => {
    if (panel.open && !body.childElementCount) load(runId, body);
  });
  return panel;
}

async function load(runId, body) {
  body.replaceChildren(el("p", { class: "facts", role: "status" }, "Reading the record…"));
  try {
    body.replaceChildren(...recordOf(await readRun(runId)));
  } catch (problem) {
    console.error(problem);
    const text = `The record cannot be shown. ${problem.message}`;
    body.replaceChildren(el("p", { role: "alert" }, text), button("Try again", () => load(runId, body)));
  }
}

/** The passages that came nearest to the question, with what the judge said of each. */
export async function closestPassages(answer) {
  const graded = await readRun(answer.run_id)
    .then(({ record }) => record.passes.flatMap(({ grades }) => grades))
    .catch(() => []);
  const best = [...new Map(graded.map((one) => [one.passage_id, one])).values()].sort((a, b) => b.score - a.score);
  const shown = best.length ? best.map((one) => ({ ...one, grade: one.result })) : answer.consulted;
  if (!shown.length) return el("p", { role: "status" }, "The search brought no passages back.");
  return el("ul", { class: "cards", "aria-label": "Closest passages" }, ...shown.slice(0, CLOSEST).map(passageRow));
}

function recordOf(detail) {
  const { record } = detail;
  const way = el("div", { class: "way" }, diagram(record), el("div", {}, ...questionOf(record), stepList(record)));
  return [way, ...record.passes.map(retrieval(record)), ...record.drafts.map(draft(record)), ending(record), facts(detail)];
}

function questionOf({ question, standalone, sent_to_web }) {
  const condensed = standalone && standalone !== question;
  return [
    el("p", {}, el("b", {}, "Stands alone as: "), condensed ? standalone : "the question as it was asked"),
    sent_to_web.length ? el("p", { class: "web" }, "Left for the web: ", ...sent_to_web.map((query) => el("q", {}, query))) : "",
  ];
}

function stepList(record) {
  const items = stepsOf(record).map((step) => {
    const off = step.node === "search_web" && record.web_search !== true;
    return el("li", { "data-node": step.node }, off ? "Web not asked" : words.stageDone({ ...step, n_in: step.n_in ?? 0 }));
  });
  return el("ol", { class: "taken", "aria-label": "Steps taken" }, ...items);
}

const retrieval = (record) => (pass, index) => {
  const reworded = index > 0 || pass.query !== record.standalone;
  return section(
    `Retrieval ${index + 1}`,
    el("p", {}, el("b", {}, reworded ? "Reworded search: " : "Search: "), el("q", {}, pass.query)),
    el("p", { class: "facts" }, `${words.counted(pass.candidates.length, "candidate")}, ${pass.grades.length} graded, ${pass.kept.length} kept.`),
    webOf(pass.web),
    pass.grades.length ? gradeTable(pass.grades) : "",
    ...decisions(record, pass.attempt, ["grade_documents"]),
  );
};

function webOf(web) {
  if (!web) return "";
  const left = web.query ? `“${web.query}” left for the web: ` : "The web: ";
  return el("p", { class: "web" }, `${left}${words.webStatus(web.status)}. ${web.warning}`);
}

function gradeTable(grades) {
  const cell = (text) => el("td", {}, text);
  const rows = grades.map((one) =>
    el(
      "tr",
      { "data-result": one.result },
      cell(`[${one.label}] ${[one.title, one.section].filter(Boolean).join(", ")}`),
      cell(words.grade(one.result)),
      cell(one.score.toFixed(2)),
      cell(one.words || "–"),
    ),
  );
  const head = ["Passage", "Grade", "Score", "The judge's words"].map((name) => el("th", { scope: "col" }, name));
  const table = el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows));
  return el("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Grades of the passages" }, table);
}

const draft = (record) => (one, index) => {
  const verdicts = record.verdicts.filter(({ attempt, gate }) => attempt === one.attempt && gate !== "documents");
  return section(
    `Draft ${index + 1}`,
    one.abstained ? el("p", {}, "The writer abstained: it found nothing to say in the sources.") : "",
    one.cut ? el("p", {}, `It was cut short: ${one.cut}.`) : "",
    one.unresolved.length ? el("p", {}, `It cites what is no source: ${one.unresolved.join(", ")}.`) : "",
    one.text ? el("details", {}, el("summary", {}, "The draft's text"), el("p", { class: "text" }, one.text)) : "",
    el("ul", { class: "judged" }, ...verdicts.map(judged)),
    ...decisions(record, one.attempt, ["generate", "reflect"]),
  );
};

function judged(verdict) {
  const said = verdict.words ? el("blockquote", {}, verdict.words) : "";
  return el("li", { "data-gate": verdict.gate, "data-result": verdict.result }, words.verdict(verdict), said);
}

/** Which way the run went at its forks, and how much of the caps was used by then. */
function decisions({ forks, caps }, attempt, after) {
  return forks
    .filter((fork) => fork.attempt === attempt && after.includes(fork.after))
    .map((fork) => {
      const used = `rewordings ${fork.rewrites} of ${caps.max_rewrites}, new drafts ${fork.regens} of ${caps.max_regen}`;
      return el("p", { class: "decision" }, `→ ${words.fork(fork)} `, el("span", { class: "facts" }, `(${used} used)`));
    });
}

function ending({ ending: { outcome, message }, warning }) {
  return section("End", el("p", {}, words.outcome(outcome), " ", message || warning));
}

function facts({ record, seq, hash, feedback }) {
  const { model, usage, timings, prompts, installation } = record;
  const rows = [
    ["Run", record.run_id],
    ["Audit record", `${seq}, ${hash.slice(0, 16)}…`],
    ["Asked", record.asked_at],
    ["Model", `${model}; ${words.counted(usage.model_calls, "call")}, ${usage.input_tokens} + ${usage.output_tokens} tokens, ${usage.cost_usd} USD`],
    ["Calls", callsOf(record)],
    ["Ranking", [installation.reranker, installation.reranker_sha256.slice(0, 12)].filter(Boolean).join(" ")],
    ["Prompts", Object.entries(prompts).map(([name, sha256]) => `${name} ${sha256.slice(0, 12)}`).join(", ")],
    ["Time", timings.total === undefined ? "" : words.took(timings.total)],
    ["Feedback", feedback.map(({ thumbs, comment }) => [`thumbs ${thumbs}`, comment].filter(Boolean).join(": ")).join("; ")],
  ];
  const known = rows.filter(([, value]) => value);
  return section("Facts", el("dl", {}, ...known.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])));
}

/** Which model did what, and how often. */
function callsOf({ calls = [], usage }) {
  const counts = new Map();
  for (const { name: call, model } of calls) {
    const name = [call, model].filter(Boolean).join(" by ");
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  const named = counts.size ? counts : new Map(Object.entries(usage.calls ?? {}));
  return [...named].map(([name, count]) => `${name.replaceAll("_", " ")} ${count}×`).join(", ");
}

const section = (title, ...parts) => el("section", {}, el("h3", {}, title), ...parts);
