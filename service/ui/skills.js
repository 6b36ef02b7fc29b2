/** The skills of this installation: the list to choose from, and `/name` at the head of a question. */

import { listSkills } from "./api.js";
import { el } from "./dom.js";

const box = document.getElementById("skill");
const note = document.getElementById("skill-note");
const known = new Map();

/** Fill the list. Without skills, or when they cannot be had, there is nothing to choose: questions work all the same. */
export async function loadSkills() {
  for (const skill of await listSkills().catch(() => [])) known.set(skill.name, skill);
  const options = [...known.keys()].map((name) => el("option", { value: name }, name));
  box.replaceChildren(el("option", { value: "" }, "None"), ...options);
  document.getElementById("skills").hidden = !known.size;
}

/** Show which skill the thread has, also one that is no longer installed. */
export function showSkill(name) {
  if (name && !known.has(name)) box.append(el("option", { value: name }, name));
  if (name) document.getElementById("skills").hidden = false;
  box.value = name;
  note.textContent = known.get(name)?.description ?? "";
}

/** The skill that a question names with `/name `; "" where it names none that is known. */
export function invoked(question) {
  const name = /^\/(\S+)\s/.exec(question)?.[1] ?? "";
  return known.has(name) ? name : "";
}

export const allowsWeb = (name) => known.get(name)?.web.allowed ?? true;
