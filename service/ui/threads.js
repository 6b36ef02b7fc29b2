/** The list of threads: search, open, rename, delete (asks first). Tells of a deleted one with `erased`. */

import { eraseThread, listThreads, renameThread } from "./api.js";
import { confirmed, entered } from "./dialogs.js";
import { announce, button, byId, el } from "./dom.js";
import { counted } from "./words.js";

const list = byId("threads");
const note = byId("threads-note");
const wanted = byId("thread-search");
let current = ""; // key of the thread that is shown
let known = [];

export const addressOf = ({ id, skill }) => `#${new URLSearchParams({ thread: id, ...(skill && { skill }) })}`;

/** The same id with another skill is another thread. */
const keyOf = ({ id, skill }) => (skill ? `${id}/${skill}` : id);

export function markThread(thread) {
  current = keyOf(thread);
  for (const link of list.querySelectorAll("a")) mark(link);
}

/** The title under which the list knows the thread, "" where it does not. */
export function titleOf(thread) {
  return known.find(({ thread_id: id, skill }) => keyOf({ id, skill }) === keyOf(thread))?.title ?? "";
}

function mark(link) {
  if (link.dataset.key === current) link.setAttribute("aria-current", "page");
  else link.removeAttribute("aria-current");
}

export async function refreshThreads() {
  try {
    known = await listThreads();
    show();
  } catch (problem) {
    const signedOut = problem.status === 401;
    note.textContent = signedOut ? "Sign in to see your threads." : `The threads could not be listed. ${problem.message}`;
  }
  list.dispatchEvent(new CustomEvent("listed"));
}

function show() {
  const words = wanted.value.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = ({ title, skill }) => words.every((word) => `${title} ${skill}`.toLowerCase().includes(word));
  const found = known.filter(fits);
  const focused = list.contains(document.activeElement) ? document.activeElement.id : "";
  list.replaceChildren(...found.map(row));
  if (focused) (byId(focused) ?? byId("new")).focus();
  note.textContent = !known.length ? "No threads yet." : words.length ? `${found.length} of ${counted(known.length, "thread")}` : "";
}

function row({ thread_id: id, skill, title, updated_at, turns }) {
  const thread = { id, skill };
  const key = keyOf(thread);
  const link = el("a", { id: `open-${key}`, href: addressOf(thread), "data-key": key }, title);
  mark(link);
  const when = new Date(updated_at).toLocaleDateString();
  return el(
    "li",
    {},
    link,
    el("span", { class: "facts" }, [skill, when, counted(turns, "question")].filter(Boolean).join(", ")),
    button("Rename", () => rename(thread, title), { id: `rename-${key}`, "aria-label": `Rename: ${title}` }),
    button("Delete", () => erase(thread, title), { id: `delete-${key}`, "aria-label": `Delete: ${title}` }),
  );
}

async function rename(thread, title) {
  const chosen = await entered("Rename the thread", title, "Rename");
  if (chosen && chosen !== title) await change(() => renameThread(thread, chosen), () => `Renamed to ${chosen}.`);
}

async function erase(thread, title) {
  const text = `“${title}”: its questions and answers are erased for good.`;
  if (!(await confirmed("Delete this thread?", text, "Delete"))) return;
  const erased = new CustomEvent("erased", { detail: thread });
  await change(() => eraseThread(thread), ({ audit }) => audit.text, erased);
}

/** Do it, list the threads anew, and say what was done. */
async function change(work, said, event = null) {
  try {
    const text = said(await work());
    if (event) list.dispatchEvent(event);
    await refreshThreads();
    note.textContent = text;
  } catch (problem) {
    note.textContent = problem.message;
    announce(problem.message);
  }
}

wanted.addEventListener("input", show);
