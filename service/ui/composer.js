/** The form at the foot of the page: the question, its skill and its web switch. */

import { byId } from "./dom.js";
import { isOpen, openMenu, watchMenu } from "./skill_menu.js";
import { allSkills, describe, invoked, whyNoWeb } from "./skills.js";
import * as web from "./web_switch.js";

const box = byId("question");
const form = byId("ask");
let threadSkill = "";

/** `send` is called with the question and whether the web is asked; `leaveSkill` when the person wants none. */
export function watchComposer({ send, leaveSkill }) {
  watchMenu((name) => (name ? useSkill(name) : withoutSkill(leaveSkill)));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (box.value.trim()) send(box.value.trim(), web.isOn());
  });
  box.addEventListener("input", changed);
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || isOpen()) return;
    event.preventDefault();
    form.requestSubmit();
  });
  byId("skill").addEventListener("click", openMenu);
}

/** The question is under way: the box is empty, and the web off again unless it is kept on. */
export function clear() {
  box.value = "";
  web.questionSent();
  changed();
}

/** Another thread is shown, under this skill. */
export function showThread(skill) {
  threadSkill = skill;
  web.reset();
  changed();
}

/** The thread's skill as the server named it, or as the list of skills now knows it. */
export function showSkill(skill) {
  threadSkill = skill;
  changed();
}

/** Put a question back into the box, to be changed and sent. */
export function fill(question) {
  box.value = box.value && box.value !== question ? `${box.value}\n${question}` : question;
  changed();
  box.focus();
}

export const focusBox = () => box.focus();

function useSkill(name) {
  const question = withoutName(box.value);
  box.value = name === threadSkill ? question : `/${name} ${question}`;
  changed();
}

function withoutSkill(leaveSkill) {
  box.value = withoutName(box.value);
  if (threadSkill) leaveSkill();
  changed();
}

const withoutName = (question) => question.replace(/^\/\S*\s?/, "");

function changed() {
  const skill = invoked(box.value) || threadSkill;
  const about = describe(skill);
  byId("skill").hidden = !allSkills().length && !skill;
  byId("skill").textContent = `Skill: ${skill || "none"}`;
  byId("skill-note").hidden = !about;
  byId("skill-note").textContent = about;
  web.forbid(whyNoWeb(skill));
  box.style.height = "auto";
  box.style.height = `${box.scrollHeight + 2}px`;
}
