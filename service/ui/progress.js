/** What a run does, as it happens: each stage with its counts, then what its gates said. */

import { el } from "./dom.js";
import * as words from "./words.js";

export class Progress {
  #under_way = new Map();

  constructor() {
    this.summary = el("summary", {}, "Sending the question…");
    this.list = el("ol");
    this.element = el("details", { class: "steps", open: true }, this.summary, this.list);
  }

  stage(frame) {
    if (frame.state === "start") this.#began(frame);
    else this.#ended(frame);
  }

  #began({ node, attempt }) {
    const name = words.stage(node) + (attempt > 1 ? ` (attempt ${attempt})` : "");
    const item = el("li", { "data-state": "running", "data-node": node }, `${name}…`);
    this.#under_way.set(node, item);
    this.list.append(item);
    this.summary.textContent = `${name}…`;
  }

  #ended(frame) {
    const item = this.#under_way.get(frame.node) ?? this.list.appendChild(el("li"));
    this.#under_way.delete(frame.node);
    item.dataset.state = "done";
    item.textContent = words.stageDone(frame);
  }

  note(text, state = "note") {
    this.list.append(el("li", { "data-state": state }, text));
  }

  /** The draft begins: the steps fold away, so that the text has the room. One line still says what goes on. */
  fold() {
    this.element.open = false;
  }

  settle(summary) {
    for (const item of this.#under_way.values()) item.remove();
    this.#under_way.clear();
    this.summary.textContent = summary;
    this.element.hidden = !this.list.children.length;
    this.fold();
  }

  get steps() {
    return this.list.children.length;
  }
}
