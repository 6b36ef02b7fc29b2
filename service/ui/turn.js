/** One question and its answer: the draft while it is written, then the checked answer, a refusal or a problem. */

import { AnswerView } from "./answer.js";
import { button, el } from "./dom.js";
import { Progress } from "./progress.js";
import { foundPanel, sourcePanels } from "./sources.js";
import * as words from "./words.js";

let made = 0;

export class TurnView {
  #draft = document.createTextNode("");
  #notice = el("p", { class: "notice" }, "Draft, being checked");
  #passed = new Set();
  #found = [];
  #told = new Set();
  #timer = 0;

  constructor(question, webSearch) {
    const id = `question-${++made}`;
    Object.assign(this, { question, webSearch, runId: "" });
    this.meta = el("p", { class: "meta" }, webSearch ? "Web search was on for this question. " : "");
    this.notes = el("div", { class: "notes" });
    this.progress = new Progress();
    this.body = el("div", { class: "body" });
    this.sources = el("div", { class: "sources" });
    const parts = [this.meta, this.progress.element, this.notes, this.body, this.sources];
    this.element = el("article", { class: "turn", "aria-labelledby": id }, el("h2", { id }, question), ...parts);
    this.#state("running");
  }

  #state(state) {
    this.element.dataset.state = state;
  }

  /** Show a frame of a running answer. Kinds that are not known are left alone. */
  show(frame) {
    if (frame.type === "run") this.#run(frame);
    else if (frame.type === "stage") this.#stage(frame);
    else if (frame.type === "sources") this.#sources(frame);
    else if (frame.type === "token") this.#token(frame.text);
    else if (frame.type === "reset") this.#reset(frame.reason);
    else if (frame.type === "verdict") this.#verdict(frame);
  }

  #run({ run_id, model, reranker, skill, warnings, delivery }) {
    this.runId = this.element.dataset.run = run_id;
    this.delivery = delivery;
    this.#made(skill?.name, { model, reranker });
    for (const text of warnings) this.tell(text, "warning");
  }

  #made(skill, { model, reranker }) {
    this.meta.append(`${skill ? `Skill: ${skill}. ` : ""}Model: ${model}, ranking: ${reranker}.`);
  }

  #stage(frame) {
    if (frame.node === "search_web" && !this.webSearch) return;
    this.progress.stage(frame);
  }

  #sources({ items, web, warnings }) {
    if (web.status !== "off") this.tellWeb([web.query], web.status);
    for (const text of warnings) this.tell(text, "warning");
    this.#found.push(...items);
    this.sources.replaceChildren(this.#found.length ? foundPanel(this.#found) : "");
  }

  #token(text) {
    if (!this.#draft.isConnected) this.#beginDraft();
    this.#draft.appendData(text);
  }

  #beginDraft() {
    const checked = this.delivery === "verified"; // then no text leaves before both gates passed
    this.draft = el("div", { class: "draft" }, this.#notice, el("div", { class: "text" }, this.#draft));
    this.#draftIs(checked ? "checked" : "draft");
    this.body.replaceChildren(this.draft);
    this.progress.fold();
  }

  #draftIs(state) {
    this.draft.dataset.state = state;
    this.#notice.textContent = { draft: "Draft, being checked", checked: "Checked: its quotations are being verified" }[state];
  }

  /** Both gates must pass before the draft looks solid. */
  #verdict(frame) {
    this.progress.note(words.verdict(frame), frame.result);
    if (frame.result === "pass") this.#passed.add(frame.gate);
    else this.#passed.delete(frame.gate);
    if (this.draft?.isConnected && this.#passed.has("grounded") && this.#passed.has("answers")) this.#draftIs("checked");
  }

  #reset(code) {
    this.#draft.data = "";
    this.#passed.clear();
    const note = `The draft was withdrawn: ${words.reason(code)}.`;
    this.progress.note(note, "fail");
    this.body.replaceChildren(el("p", { class: "notice withdrawn" }, note));
  }

  /** Each note once: the sources of a second attempt repeat what was said with the first. */
  tell(text, kind) {
    if (this.#told.has(text)) return;
    this.#told.add(text);
    this.notes.append(el("p", { class: kind }, text));
  }

  /** The exact words that left, and how the search went. */
  tellWeb(sent, status) {
    const left = sent.filter(Boolean).map((query) => `“${query}”`);
    const said = left.length ? `The web was asked: ${left.join(", then ")}; ` : "The web: ";
    this.tell(`${said}${words.webStatus(status)}.`, "web");
  }

  /** Show the finished answer; a turn of a stored thread looks the same. `actions` are what the page can do with it. */
  finish(answer, sources, actions) {
    this.answer = new AnswerView(answer, { question: this.question, webSearch: this.webSearch, sources, actions });
    this.runId = this.element.dataset.run = answer.run_id;
    this.body.replaceChildren(...this.answer.elements);
    this.sources.replaceChildren(...sourcePanels(answer, sources));
    this.answer.nameChips();
    this.progress.settle(words.counted(this.progress.steps, "step"));
    this.#state(answer.status);
  }

  /** Show a stored turn of a thread: what the live one said of its skill, its model and its web query stands here too. */
  restore(item, { skill, sources }, actions) {
    this.#made(skill, item);
    if (item.web_search) this.tellWeb(item.web.sent, item.web.status);
    this.finish(item, sources, actions);
  }

  spoken() {
    return this.answer.spoken();
  }

  /** Withdraw what was not checked, say what happened and offer what can be done. Who pressed stop keeps the text. */
  fail({ message, code, waitS = 0 }, { retry, edit }) {
    const stopped = code === "cancelled";
    const partial = stopped ? this.#draft.data : "";
    const lost = this.#draft.data && !partial ? " The unchecked draft was withdrawn." : "";
    const again = retry ? button(this.webSearch ? "Try again, with the web" : "Try again", retry, { class: "again" }) : "";
    const text = el("p", {}, `${message}${lost}`);
    const buttons = el("div", { class: "buttons" }, again, button("Edit the question", edit));
    this.#draft.data = "";
    if (!partial) this.sources.replaceChildren();
    this.body.replaceChildren(partial ? unfinished(partial) : "", el("div", { class: stopped ? "stopped" : "problem" }, text, buttons));
    text.setAttribute("role", stopped ? "status" : "alert");
    this.progress.settle(stopped ? "Stopped" : "What happened until then");
    this.#state(stopped ? "stopped" : "error");
    if (again && waitS) this.#countDown(again, waitS);
  }

  /** The button waits as long as the server asked for, and says so. The clock may have slept with the tab. */
  #countDown(again, waitS) {
    const label = again.textContent;
    const until = Date.now() + waitS * 1000;
    const tick = () => {
      const left = Math.ceil((until - Date.now()) / 1000);
      again.disabled = left > 0;
      again.textContent = left > 0 ? `${label} in ${left} s` : label;
      if (left <= 0 || !again.isConnected) clearInterval(this.#timer);
    };
    this.#timer = setInterval(tick, 500);
    tick();
  }
}

function unfinished(text) {
  const label = el("p", { class: "notice" }, "Stopped here: incomplete, and not checked");
  return el("div", { class: "draft", "data-state": "unfinished" }, label, el("div", { class: "text" }, text));
}
