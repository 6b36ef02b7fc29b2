/** The web switch: off for every question, unless the person keeps it on for the thread that is shown. */

import { byId } from "./dom.js";

const web = byId("web");
const pin = byId("pin");
const note = byId("web-note");

const SAYS = {
  off: "Web off: only the knowledge base is read.",
  on: "Web on for this question: its words leave for a public search engine. Passages of the knowledge base are read all the same.",
  pinned: "Web kept on for each question in this thread: their words leave for a public search engine.",
};
let forbidden = ""; // why the web may not be asked, "" where it may
let pinned = false;

export const isOn = () => web.checked && !forbidden;

/** The question was sent: the next one starts without the web. */
export function questionSent() {
  web.checked = pinned && !forbidden;
  show();
}

/** Another thread is shown: nothing that was switched on goes with it. */
export function reset() {
  pinned = web.checked = false;
  show();
}

/** Say why the web may not be asked; "" where it may. The server holds to it, whatever this page shows. */
export function forbid(reason) {
  forbidden = reason;
  web.checked &&= !reason;
  pinned &&= !reason;
  show();
}

/** Switch the web on or off; false where it is forbidden. The person still sends the question. */
export function choose(on) {
  if (forbidden) return false;
  web.checked = on;
  pinned &&= on;
  show();
  return true;
}

export const whyForbidden = () => forbidden;

function show() {
  const state = forbidden ? "forbidden" : pinned ? "pinned" : web.checked ? "on" : "off";
  web.disabled = Boolean(forbidden);
  pin.hidden = !web.checked;
  pin.setAttribute("aria-pressed", String(pinned));
  note.dataset.state = state;
  note.textContent = SAYS[state] ?? forbidden;
}

web.addEventListener("change", () => choose(web.checked));
pin.addEventListener("click", () => {
  pinned = !pinned;
  show();
});
window.addEventListener("pageshow", reset); // a restored page must not restore the switch
show();
