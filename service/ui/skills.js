/** The skills of this installation, and what they and the operator allow. */

import { listSkills } from "./api.js";

const known = new Map();
let webHere = true;

/** Without skills, or when they cannot be had, there is nothing to choose: questions work all the same. */
export async function loadSkills() {
  const { skills, web_search } = await listSkills().catch(() => ({ skills: [], web_search: true }));
  for (const skill of skills) known.set(skill.name, skill);
  webHere = web_search;
}

export const allSkills = () => [...known.values()];
export const describe = (name) => known.get(name)?.description ?? "";

/** The skill that a question names with `/name `; "" where it names none that is known. */
export function invoked(question) {
  const name = /^\/(\S+)\s/.exec(question)?.[1] ?? "";
  return known.has(name) ? name : "";
}

/** Why the web may not be asked under the skill; "" where it may. */
export function whyNoWeb(name) {
  if (!webHere) return "The web is switched off in this installation. Only the knowledge base is read.";
  if (known.get(name)?.web.allowed === false) return `The skill “${name}” does not allow the web. Only the knowledge base is read.`;
  return "";
}
