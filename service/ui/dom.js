/** Builds elements from text. Strings become text nodes, never markup. */

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") node.addEventListener("click", value);
    else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== ""));
  return node;
}

export const button = (text, onclick, attributes = {}) => el("button", { type: "button", onclick, ...attributes }, text);

/** A link to a page of ours or of the web, in a new tab; plain text where the address is neither. */
export function outward(address, text, attributes = {}) {
  const known = address && URL.canParse(address, location.href);
  if (!known || !/^https?:$/.test(new URL(address, location.href).protocol)) return el("span", {}, text);
  return el("a", { href: address, target: "_blank", rel: "noopener noreferrer", ...attributes }, text);
}
