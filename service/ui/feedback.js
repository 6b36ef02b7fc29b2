/** What the person thinks of an answer: a thumb, and a comment if they like. Both go to the audit log. */

import { giveFeedback } from "./api.js";
import { button, el, svg } from "./dom.js";

export function feedbackRow(runId) {
  const said = el("span", { class: "facts", role: "status" });
  const more = el("div");
  const send = async (thumbs, comment) => {
    try {
      await giveFeedback(runId, { thumbs, comment });
      said.textContent = comment ? "Thank you: your comment was recorded." : "Thank you: recorded.";
      return true;
    } catch (problem) {
      said.textContent = problem.message;
      return false;
    }
  };
  const press = async (thumbs) => {
    if (!(await send(thumbs, ""))) return;
    for (const [name, one] of Object.entries(thumb)) one.setAttribute("aria-pressed", String(name === thumbs));
    more.replaceChildren(commentForm(thumbs, send, () => more.replaceChildren()));
  };
  const thumb = {
    up: button(icon("up"), () => press("up"), { "aria-label": "Good answer", "aria-pressed": "false" }),
    down: button(icon("down"), () => press("down"), { "aria-label": "Bad answer", "aria-pressed": "false" }),
  };
  return el("div", { class: "feedback" }, thumb.up, thumb.down, said, more);
}

/** A thumb as a drawing: not every system has the sign in a font. */
function icon(thumbs) {
  const hand = svg("path", { d: "M2 9h3v9H2zM7 9l3.5-7c1.5 0 2.5 1 2.3 2.5L12.3 8h4.4c1.2 0 2 1 1.7 2.2l-1.6 6.3c-.2.9-1 1.5-1.9 1.5H7z" });
  return svg("svg", { class: `thumb ${thumbs}`, viewBox: "0 0 20 20", "aria-hidden": "true" }, hand);
}

function commentForm(thumbs, send, close) {
  const text = el("textarea", { rows: 2, maxlength: 2000, placeholder: thumbs === "up" ? "What helped?" : "What is wrong or missing?" });
  const form = el("form", { class: "comment" }, el("label", {}, "Comment, if you like", text), el("button", { type: "submit" }, "Send the comment"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const comment = text.value.trim();
    if (!comment || (await send(thumbs, comment))) close();
  });
  return form;
}
