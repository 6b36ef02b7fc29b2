/** The twelve nodes as a drawing, with the way that a run took lit. Drawn with DOM calls: nothing of a record is markup. */

import { svg } from "./dom.js";
import { edgesOf, stepsOf } from "./route.js";
import { took } from "./words.js";

const WIDTH = 460;
const HEIGHT = 566;
const BOX = { width: 136, height: 42 };
// Centres of the boxes, in the drawing's own units.
const AT = {
  contextualize: [230, 28],
  retrieve_vector: [230, 98],
  rerank_vector: [158, 168],
  search_web: [302, 168],
  grade_documents: [230, 238],
  rewrite_query: [76, 238],
  assemble_sources: [230, 308],
  generate: [230, 378],
  reflect: [230, 448],
  prepare_regen: [76, 448],
  give_up: [384, 378],
  finalize: [230, 538],
};
const EDGES = {
  "contextualize>retrieve_vector": "M230 49V75",
  "retrieve_vector>rerank_vector": "M200 119V145",
  "retrieve_vector>search_web": "M260 119V145",
  "rerank_vector>grade_documents": "M200 189V215",
  "search_web>grade_documents": "M260 189V215",
  "grade_documents>assemble_sources": "M230 259V285",
  "grade_documents>rewrite_query": "M162 238H147",
  "rewrite_query>retrieve_vector": "M76 217V98H160",
  "grade_documents>give_up": "M298 238H384V355",
  "assemble_sources>generate": "M230 329V355",
  "generate>reflect": "M230 399V425",
  "generate>give_up": "M298 378H314",
  "reflect>prepare_regen": "M162 448H147",
  "prepare_regen>generate": "M76 427V378H160",
  "reflect>rewrite_query": "M196 469V490H4V238H6",
  "reflect>give_up": "M298 448H360V401",
  "reflect>finalize": "M230 469V515",
  "give_up>finalize": "M412 399V538H300",
};
const WEB_EDGES = ["retrieve_vector>search_web", "search_web>grade_documents"];
let drawn = 0;

const askedWeb = ({ web_search }) => web_search === true; // else the step returned at once

export function diagram(record) {
  const steps = stepsOf(record);
  const taken = edgesOf(record);
  if (!askedWeb(record)) for (const edge of WEB_EDGES) taken.delete(edge);
  const id = `route-${++drawn}`;
  const said = `The way of this answer: ${steps.map(({ node }) => node.replaceAll("_", " ")).join(", then ")}.`;
  const unlit = Object.keys(EDGES).filter((edge) => !taken.has(edge));
  const lit = Object.keys(EDGES).filter((edge) => taken.has(edge)); // drawn last, over the others
  return svg(
    "svg",
    { class: "route", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-labelledby": id },
    svg("title", { id }, said),
    svg("defs", {}, arrow("dim"), arrow("lit")),
    ...[...unlit, ...lit].map((edge) => line(edge, taken.has(edge))),
    ...Object.keys(AT).map((node) => box(node, steps.filter((step) => step.node === node), record)),
  );
}

function arrow(kind) {
  const tip = svg("path", { d: "M0 0L8 4L0 8Z", class: `tip ${kind}` });
  const size = { markerWidth: 8, markerHeight: 8, refX: 6, refY: 4, orient: "auto", markerUnits: "userSpaceOnUse" };
  return svg("marker", { id: `tip-${kind}-${drawn}`, ...size }, tip);
}

function line(edge, isLit) {
  const marker = `url(#tip-${isLit ? "lit" : "dim"}-${drawn})`;
  return svg("path", { class: "edge", "data-edge": edge, "data-lit": String(isLit), d: EDGES[edge], "marker-end": marker });
}

function box(node, steps, record) {
  const [x, y] = AT[node];
  const idle = node === "search_web" && !askedWeb(record);
  const place = { x: x - BOX.width / 2, y: y - BOX.height / 2, ...BOX, rx: 8 };
  return svg(
    "g",
    { class: "node", "data-node": node, "data-lit": String(steps.length > 0 && !idle), "data-times": steps.length },
    svg("rect", place),
    svg("text", { x, y: y - 3, class: "name" }, node),
    svg("text", { x, y: y + 13, class: "count" }, idle ? "web off" : facts(node, steps, record)),
  );
}

function facts(node, steps, record) {
  if (!steps.length) return "not taken";
  const ms = record.timings[node];
  const last = steps.at(-1);
  const counts = last.n_out == null ? "" : last.n_in == null ? `${last.n_out} out` : `${last.n_in} → ${last.n_out}`;
  const times = steps.length > 1 ? `${steps.length}×` : "";
  return [times, ms === undefined ? "" : took(ms), counts].filter(Boolean).join(" · ");
}
