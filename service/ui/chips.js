/** The numbers in an answer: each names its source to those who hear it, and shows its quote on hover and on focus. */

import { byId, el, safeAddress } from "./dom.js";
import { tag } from "./sources.js";
import { STATUSES } from "./words.js";

const GAP = 6; // px between a chip and its popover
const LINGER_MS = 150; // so that the pointer can travel from the chip to the popover (WCAG 1.4.13)
const popover = byId("popover");
let leaving = 0;
let shown = null; // the chip whose popover is open

/** Name each chip in `text`, and make it show the very citation it stands for. */
export function nameChips(text, citations, sources) {
  const places = new Map(); // by number: how many of its chips were seen
  const chips = [...text.querySelectorAll("a.cite")];
  for (const chip of chips) {
    const n = Number(chip.dataset.n);
    const own = citations.filter((citation) => citation.n === n);
    const same = chips.filter((other) => other.dataset.n === chip.dataset.n).length === own.length;
    const place = places.get(n) ?? 0;
    places.set(n, place + 1);
    nameChip(chip, own[same ? place : 0], sources.get(n));
  }
}

function nameChip(chip, citation, source) {
  const address = safeAddress(citation?.link);
  if (address) chip.setAttribute("href", address);
  chip.dataset.status = citation?.status ?? "unsupported";
  const about = source ? `[${source.label}] ${[source.title, source.section].filter(Boolean).join(", ")}` : "";
  const weak = chip.dataset.status === "unsupported" ? STATUSES.unsupported : "";
  chip.setAttribute("aria-label", `Source ${[chip.dataset.n, about, weak, "opens in a new tab"].filter(Boolean).join(", ")}`);
  if (!source) return;
  const enter = () => open(chip, citation, source);
  chip.addEventListener("mouseenter", enter);
  chip.addEventListener("focus", enter);
  chip.addEventListener("mouseleave", leave);
  chip.addEventListener("blur", close);
}

function open(chip, citation, source) {
  clearTimeout(leaving);
  const facts = [source.section, source.page === null ? "" : `page ${source.page}`, read(source)].filter(Boolean);
  popover.replaceChildren(
    el("p", { class: "head" }, tag(source.label), ` ${source.n}. ${source.title}`),
    el("p", { class: "facts" }, facts.join(" · ")),
    el("blockquote", {}, citation?.quote || source.quote),
    citation ? el("p", { class: "facts status" }, mark(citation.status)) : "",
  );
  popover.dataset.label = source.label;
  popover.dataset.status = citation?.status ?? "";
  popover.hidden = false;
  for (const other of document.querySelectorAll("[aria-describedby=popover]")) other.removeAttribute("aria-describedby");
  chip.setAttribute("aria-describedby", "popover");
  shown = chip;
  place(chip.getBoundingClientRect());
}

const read = ({ fetched_at }) => (fetched_at ? `read ${fetched_at.slice(0, 10)}` : "");
const mark = (status) => `${{ verified: "✓", supported: "✓", unsupported: "?" }[status] ?? ""} ${STATUSES[status] ?? status}`;

/** Below the chip, whose sentence stands before it, else above; never over the edge of the window. */
function place(chip) {
  const { offsetWidth: width, offsetHeight: height } = popover;
  const left = Math.max(8, Math.min(chip.left, document.documentElement.clientWidth - width - 8));
  const below = chip.bottom + GAP;
  const fits = below + height < document.documentElement.clientHeight || chip.top < height + GAP;
  popover.style.left = `${left}px`;
  popover.style.top = `${fits ? below : chip.top - height - GAP}px`;
}

/** The page scrolls, as it does by itself to what is focused: the popover stays with its chip while that is seen. */
function follow() {
  if (popover.hidden) return;
  const { top, bottom } = shown.getBoundingClientRect();
  if (bottom < 0 || top > document.documentElement.clientHeight) close();
  else place(shown.getBoundingClientRect());
}

function leave() {
  clearTimeout(leaving);
  leaving = setTimeout(close, LINGER_MS);
}

function close() {
  clearTimeout(leaving);
  popover.hidden = true;
}

popover.addEventListener("mouseenter", () => clearTimeout(leaving));
popover.addEventListener("mouseleave", leave);
document.addEventListener("keydown", ({ key }) => key === "Escape" && close());
document.addEventListener("scroll", follow, { passive: true });
