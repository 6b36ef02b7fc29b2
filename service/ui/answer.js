/** A finished answer: its text with chips, its verdict line, what can be done with it, and why it is as it is. */

import { nameChips } from "./chips.js";
import { copyAnswer } from "./copying.js";
import { button, el } from "./dom.js";
import { feedbackRow } from "./feedback.js";
import { closestPassages, whyPanel } from "./why.js";
import * as words from "./words.js";

const SAID = { answered: "Answer", partial: "Answer with a warning", refused: "No answer" };
/** The texts of a refusal, as service/graph/refusals.py words them. */
const REFUSALS = [
  "The knowledge base does not hold enough to answer this reliably.",
  "No answer that was written passed its checks, so none is shown.",
];

export class AnswerView {
  #about;

  /** `about` holds the question, whether the web was asked, the thread's sources by number, and the page's actions. */
  constructor(answer, about) {
    this.answer = answer;
    this.#about = about;
    this.text = el("div", { class: "answer" });
    this.text.innerHTML = answer.html; // rendered and sanitised by the server
    const refused = answer.status === "refused";
    const warning = answer.warning ? el("p", { class: "warning" }, answer.warning) : "";
    const shown = refused ? [this.#refusal()] : [warning, this.text];
    this.elements = [...shown, verdictLine(answer), this.#actions(), whyPanel(answer.run_id)];
  }

  /** After the sources are on the page: each number becomes a chip that names what it cites. */
  nameChips() {
    nameChips(this.text, this.answer.citations, this.#about.sources);
  }

  #actions() {
    const copied = el("span", { class: "facts", role: "status" });
    const copy = async () => {
      const done = await copyAnswer(this.#about.question, this.answer, this.#about.sources);
      copied.textContent = done ? "Copied, with its sources." : "This browser did not let the page copy.";
    };
    const buttons = this.answer.status === "refused" ? "" : button("Copy as Markdown", copy);
    return el("div", { class: "actions" }, buttons, copied, feedbackRow(this.answer.run_id));
  }

  #refusal() {
    const { actions, webSearch, question } = this.#about;
    const closest = el("div", { class: "closest" });
    const show = async () => closest.replaceChildren(await closestPassages(this.answer));
    const flipped = webSearch ? "Ask again without the web" : "Ask again with the web";
    const forbidden = webSearch ? "" : actions.whyNoWeb();
    return el(
      "div",
      { class: "refusal" },
      el("h3", {}, "Not answered"),
      ...this.#refusalText(),
      el(
        "div",
        { class: "buttons" },
        button("Rephrase", () => actions.edit(question)),
        button(flipped, () => actions.flipWeb(question, !webSearch), { disabled: Boolean(forbidden), title: forbidden || null }),
        button("Show the closest passages", show),
      ),
      forbidden ? el("p", { class: "facts" }, forbidden) : "",
      closest,
    );
  }

  /** Whom to ask stands apart, where the text is the one we know. */
  #refusalText() {
    const { answer } = this.answer;
    const known = REFUSALS.find((text) => answer.startsWith(text)) ?? "";
    const whom = known ? answer.slice(known.length).trim() : "";
    if (!whom) return [this.text];
    return [el("p", {}, known), el("p", { class: "whom" }, el("b", {}, "Whom to ask: "), whom)];
  }

  /** What a screen reader hears, once: the outcome, any warning, and the text with its citations spelt out. */
  spoken() {
    const copy = this.text.cloneNode(true);
    for (const chip of copy.querySelectorAll("a.cite")) chip.replaceWith(` (source ${chip.dataset.n}) `);
    return [`${SAID[this.answer.status]}.`, this.answer.warning, copy.textContent.trim()].filter(Boolean).join(" ");
  }
}

function verdictLine({ verdicts, status, rewrites, regens }) {
  const last = Object.fromEntries(verdicts.map((verdict) => [verdict.gate, verdict]));
  const gates = status === "refused" ? ["documents", "grounded", "answers"] : ["grounded", "answers"];
  const said = gates.filter((gate) => last[gate]).map((gate) => last[gate]);
  const badges = said.map((one) => el("li", { "data-gate": one.gate, "data-result": one.result }, words.verdict(one)));
  badges.push(el("li", {}, words.counted(1 + rewrites + regens, "attempt")));
  return el("ul", { class: "verdicts", "aria-label": "Checks" }, ...badges);
}
