/** One question and its answer: the draft while it is written, then the checked answer, a refusal or a problem. */

import { button, el } from "./dom.js";
import { foundPanel, sourcePanels } from "./sources.js";
import * as words from "./words.js";

let made = 0;

export class TurnView {
  #draft = document.createTextNode("");
  #found = [];
  #told = new Set();

  constructor(question, webSearch) {
    const id = `question-${++made}`;
    Object.assign(this, { question, webSearch });
    this.meta = el("p", { class: "meta" }, webSearch ? "Web search was on for this question. " : "");
    this.summary = el("summary", {}, "Sending the question…");
    this.list = el("ol");
    this.steps = el("details", { class: "steps" }, this.summary, this.list);
    this.body = el("div");
    this.sources = el("div", { class: "sources" });
    const parts = [this.meta, this.steps, this.body, this.sources];
    this.element = el("article", { class: "turn", "aria-labelledby": id }, el("h2", { id }, question), ...parts);
  }

  /** Show a frame of a running answer. Kinds that are not known are left alone. */
  show(frame) {
    if (frame.type === "run") this.#run(frame);
    else if (frame.type === "stage") this.#stage(frame);
    else if (frame.type === "sources") this.#sources(frame);
    else if (frame.type === "token") this.#token(frame.text);
    else if (frame.type === "reset") this.#reset(frame.reason);
    else if (frame.type === "verdict") this.#step(words.verdict(frame));
  }

  #run({ model, reranker, skill, warnings }) {
    this.meta.append(`${skill ? `Skill: ${skill.name}. ` : ""}Model: ${model}, ranking: ${reranker}.`);
    for (const text of warnings) this.#tell(text, "warning");
  }

  #stage(frame) {
    if (frame.node === "search_web" && !this.webSearch) return;
    const attempt = frame.attempt > 1 ? ` (attempt ${frame.attempt})` : "";
    if (frame.state === "end") this.#step(words.stageDone(frame));
    else this.summary.textContent = `${words.stage(frame.node)}${attempt}…`;
  }

  #sources({ items, web, warnings }) {
    const asked = web.query ? `The web was asked: “${web.query}”; ` : "The web: ";
    if (web.status !== "off") this.#tell(`${asked}${words.webStatus(web.status)}.`, "web");
    for (const text of warnings) this.#tell(text, "warning");
    this.#found.push(...items);
    this.sources.replaceChildren(this.#found.length ? foundPanel(this.#found) : "");
  }

  #token(text) {
    if (!this.#draft.isConnected) {
      const label = el("p", { class: "notice" }, "Draft, being checked");
      this.body.append(el("div", { class: "draft" }, label, el("div", { class: "text" }, this.#draft)));
    }
    this.#draft.appendData(text);
  }

  #reset(code) {
    this.#draft.data = "";
    const note = `The draft was withdrawn: ${words.reason(code)}.`;
    this.#step(note);
    this.body.replaceChildren(el("p", { class: "notice" }, note));
  }

  #step(text) {
    this.list.append(el("li", {}, text));
  }

  /** Say it once: a second pass reports the same web search and the same warnings again. */
  #tell(text, kind) {
    if (this.#told.has(text)) return;
    this.#told.add(text);
    this.steps.before(el("p", { class: kind }, text));
  }

  /** Show the finished answer; a turn of a stored thread looks the same. */
  finish(answer, sources) {
    this.answer = el("div", { class: "answer" });
    this.answer.innerHTML = answer.html; // rendered and sanitised by the server
    for (const chip of this.answer.querySelectorAll("a.cite")) nameChip(chip, answer, sources);
    const refused = answer.status === "refused";
    const warning = answer.warning ? el("p", { class: "warning" }, answer.warning) : "";
    const shown = refused ? [refusal(this.answer)] : [warning, this.answer];
    this.body.replaceChildren(...shown, el("p", { class: "verdicts" }, verdictLine(answer)));
    this.sources.replaceChildren(...sourcePanels(answer, sources));
    this.#settle(`How this was answered: ${words.counted(this.list.children.length, "step")}`);
    this.status = { answered: "Answer", partial: "Answer with a warning", refused: "No answer" }[answer.status];
    this.warning = answer.warning;
  }

  /** Withdraw what was not checked, say what happened and offer what can be done. Who pressed stop keeps the text. */
  fail({ message, code }, { retry, edit }) {
    const stopped = code === "cancelled";
    const partial = stopped ? this.#draft.data : "";
    const lost = this.#draft.data && !partial ? " The unchecked draft was withdrawn." : "";
    const again = this.webSearch ? "Try again, with the web" : "Try again";
    const buttons = [retry ? button(again, retry) : "", button("Edit the question", edit)];
    const text = el("p", {}, `${message}${lost}`);
    this.#draft.data = "";
    if (!partial) this.sources.replaceChildren();
    this.body.replaceChildren(partial ? unfinished(partial) : "", el("div", { class: stopped ? "stopped" : "problem" }, text, ...buttons));
    text.setAttribute("role", stopped ? "status" : "alert");
    this.#settle(stopped ? "Stopped" : "What happened until then");
  }

  #settle(summary) {
    this.summary.textContent = summary;
    this.steps.hidden = !this.list.children.length;
  }

  /** What a screen reader hears, once: the outcome, any warning, and the text with its citations spelt out. */
  spoken() {
    const copy = this.answer.cloneNode(true);
    for (const chip of copy.querySelectorAll("a.cite")) chip.replaceWith(` (source ${chip.dataset.n}) `);
    return [`${this.status}.`, this.warning, copy.textContent].filter(Boolean).join(" ");
  }
}

function unfinished(text) {
  const label = el("p", { class: "notice" }, "Stopped here: incomplete, and not checked");
  return el("div", { class: "draft" }, label, el("div", { class: "text" }, text));
}

function refusal(text) {
  return el("div", { class: "refusal" }, el("h3", {}, "Not answered"), text);
}

function nameChip(chip, answer, sources) {
  const n = Number(chip.dataset.n);
  const source = sources.get(n);
  const cited = answer.citations.filter((citation) => citation.n === n);
  const weak = cited.some(({ status }) => status === "unsupported");
  chip.classList.toggle("unsupported", weak);
  const about = source ? `[${source.label}] ${[source.title, source.section].filter(Boolean).join(", ")}` : "";
  const name = [`${n}`, about, weak ? "not supported by the source" : "", "opens in a new tab"];
  chip.setAttribute("aria-label", `Source ${name.filter(Boolean).join(", ")}`);
  chip.title = [about, cited[0]?.quote ?? ""].filter(Boolean).join("\n");
}

function verdictLine({ verdicts, status, rewrites, regens }) {
  const last = Object.fromEntries(verdicts.map((verdict) => [verdict.gate, verdict]));
  const gates = status === "refused" ? ["documents", "grounded", "answers"] : ["grounded", "answers"];
  const said = gates.filter((gate) => last[gate]).map((gate) => words.verdict(last[gate]));
  return [...said, words.counted(1 + rewrites + regens, "attempt")].join(" · ");
}
