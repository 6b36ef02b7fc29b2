/** The menu that `/` opens in the question: a listbox, moved through with the arrow keys while the focus stays in the box. */

import { announce, byId, el } from "./dom.js";
import { allSkills } from "./skills.js";
import { counted } from "./words.js";

const box = byId("question");
const menu = byId("skill-menu");
let active = -1;
let choose = () => {};

/** `chosen` is called with the skill's name, "" for none. */
export function watchMenu(chosen) {
  choose = chosen;
  box.addEventListener("input", () => follow());
  box.addEventListener("keydown", moved); // listened to before the page's own keys: see chat.js
  box.addEventListener("blur", close);
  menu.addEventListener("mousedown", (event) => event.preventDefault()); // the focus stays in the box
  menu.addEventListener("click", ({ target }) => take(target.closest("[role=option]")));
}

export const isOpen = () => !menu.hidden;

/** Open with every skill, as the button does. */
export function openMenu() {
  box.focus();
  show(allSkills(), true);
}

/** Open while the question is a `/` and the beginning of a name. */
function follow() {
  const typed = /^\/(\S*)$/.exec(box.value)?.[1];
  const fits = ({ name, description }) => `${name} ${description}`.toLowerCase().includes(typed.toLowerCase());
  const found = typed === undefined ? [] : allSkills().filter(fits);
  const first = (skill) => (skill.name.startsWith(typed) ? 0 : 1);
  show(found.sort((one, other) => first(one) - first(other)), false);
}

function show(skills, withNone) {
  const was = isOpen() ? menu.childElementCount : 0;
  const options = skills.map(({ name, description }) => option(name, `/${name}`, description));
  if (withNone && options.length) options.push(option("", "No skill", "The whole knowledge base, in a new thread."));
  menu.replaceChildren(...options);
  menu.hidden = !options.length;
  mark(0);
  if (options.length && options.length !== was) {
    announce(`${counted(options.length, "skill")}. Up and down choose, Enter takes, Escape closes.`);
  }
}

function option(name, title, description) {
  const id = `skill-option-${name || "none"}`;
  return el("li", { id, role: "option", "data-name": name }, el("b", {}, title), " ", el("span", {}, description));
}

function mark(index) {
  active = menu.hidden ? -1 : (index + menu.children.length) % menu.children.length;
  for (const [at, item] of [...menu.children].entries()) item.setAttribute("aria-selected", String(at === active));
  if (active < 0) box.removeAttribute("aria-activedescendant");
  else box.setAttribute("aria-activedescendant", menu.children[active].id);
  menu.children[active]?.scrollIntoView({ block: "nearest" });
}

function moved(event) {
  if (!isOpen() || event.isComposing) return;
  const steps = { ArrowDown: active + 1, ArrowUp: active - 1, Home: 0, End: -1 };
  if (event.key in steps) mark(steps[event.key]);
  else if (event.key === "Enter" && !event.shiftKey) take(menu.children[active]);
  else if (event.key === "Escape") close();
  else return;
  event.preventDefault();
  event.stopImmediatePropagation();
}

function take(item) {
  if (!item) return;
  close();
  choose(item.dataset.name);
}

function close() {
  menu.hidden = true;
  menu.replaceChildren();
  mark(-1);
}
