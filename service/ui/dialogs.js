/** Asks the person something in a modal dialog: yes or no, or for a line of text. Escape is a no. */

import { byId } from "./dom.js";

const dialog = byId("dialog");
const input = byId("dialog-input");

/** Resolves to whether the person agreed. The focus begins on Cancel: Enter alone erases nothing. */
export async function confirmed(title, text, action) {
  return (await shown({ title, text, action, field: false })) === "ok";
}

/** Resolves to the line that the person entered, "" where they left it. */
export async function entered(title, value, action) {
  const answer = await shown({ title, text: "", action, field: true, value });
  return answer === "ok" ? input.value.trim() : "";
}

function shown({ title, text, action, field, value = "" }) {
  byId("dialog-title").textContent = title;
  byId("dialog-text").textContent = text;
  byId("dialog-text").hidden = !text;
  byId("dialog-field").hidden = !field;
  byId("dialog-ok").textContent = action;
  byId("dialog-ok").classList.toggle("danger", !field);
  input.value = value;
  dialog.returnValue = "";
  dialog.showModal();
  if (field) input.select();
  return new Promise((answered) => dialog.addEventListener("close", () => answered(dialog.returnValue), { once: true }));
}

input.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.isComposing) return;
  event.preventDefault(); // else the form's first button, Cancel, would be pressed
  dialog.close("ok");
});
