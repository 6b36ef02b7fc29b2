/** The list of threads: links to open them, rename, delete (asks first). Tells of a deleted one with `erased`. */

import { eraseThread, listThreads, renameThread } from "./api.js";
import { button, el } from "./dom.js";
import { counted } from "./words.js";

const list = document.getElementById("threads");
const note = document.getElementById("threads-note");
let current = ""; // key of the thread that is shown

export const addressOf = ({ id, skill }) => `#${new URLSearchParams({ thread: id, ...(skill && { skill }) })}`;

/** The same id with another skill is another thread. */
const keyOf = ({ id, skill }) => (skill ? `${id}/${skill}` : id);

export function markThread(thread) {
  current = keyOf(thread);
  for (const link of list.querySelectorAll("a")) mark(link);
}

function mark(link) {
  if (link.dataset.key === current) link.setAttribute("aria-current", "page");
  else link.removeAttribute("aria-current");
}

export async function refreshThreads() {
  try {
    const threads = await listThreads();
    const focused = list.contains(document.activeElement) ? document.activeElement.id : "";
    list.replaceChildren(...threads.map(row));
    if (focused) (document.getElementById(focused) ?? document.getElementById("new")).focus();
    note.textContent = threads.length ? "" : "No threads yet.";
  } catch (problem) {
    const signedOut = problem.status === 401;
    note.textContent = signedOut ? "Sign in to see your threads." : `The threads could not be listed. ${problem.message}`;
  }
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
  const chosen = prompt("New title of the thread", title)?.trim();
  if (chosen) await change(() => renameThread(thread, chosen));
}

async function erase(thread, title) {
  if (!confirm(`Delete “${title}”? Its questions and answers are erased for good.`)) return;
  const erased = new CustomEvent("erased", { detail: thread });
  await change(() => eraseThread(thread).then(() => list.dispatchEvent(erased)));
}

async function change(work) {
  try {
    await work();
    await refreshThreads();
  } catch (problem) {
    note.textContent = problem.message;
  }
}
