/** Builds elements from text. Strings become text nodes, never markup. */

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);
export const el = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

function filled(node, attributes = {}, children = []) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") node.addEventListener("click", value);
    else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== ""));
  return node;
}

export const button = (text, onclick, attributes = {}) => el("button", { type: "button", onclick, ...attributes }, text);

/** An address of ours or of the web; null where it is neither (`javascript:` and its like). */
export function safeAddress(address) {
  const known = address && URL.canParse(address, location.href);
  return known && /^https?:$/.test(new URL(address, location.href).protocol) ? address : null;
}

/** A link that opens in a new tab; plain text where the address is not one to open. */
export function outward(address, text, attributes = {}) {
  const href = safeAddress(address);
  if (!href) return el("span", {}, text);
  return el("a", { href, target: "_blank", rel: "noopener noreferrer", ...attributes }, text);
}

/** Said once to those who hear the page. */
export function announce(text) {
  byId("announcer").replaceChildren(el("p", {}, text));
}
