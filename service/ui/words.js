/** What the codes of the wire mean, in plain words. */

const STAGES = {
  contextualize: "Reading the question",
  retrieve_vector: "Searching the knowledge base",
  rerank_vector: "Ranking the passages",
  search_web: "Searching the web",
  grade_documents: "Grading the passages",
  rewrite_query: "Rewording the search",
  give_up: "Finding too little to answer",
  assemble_sources: "Numbering the sources",
  generate: "Writing a draft",
  reflect: "Checking the draft",
  prepare_regen: "Preparing another draft",
  finalize: "Verifying the quotations",
};

const REASONS = {
  not_grounded: "not every statement was supported by its sources",
  quote_not_found: "a quotation did not stand in its source",
  no_citation: "it cited no source",
  unresolved_marker: "it cited something that is not among the sources",
  off_topic: "it did not answer the question",
  nothing_relevant: "no passage was found relevant",
  no_candidates: "the search found no passages",
  abstained: "the sources do not say enough",
  cut_short: "it was cut short",
  not_assessed: "a judge gave no usable verdict",
};

const WEB = {
  ok: "pages were found",
  empty: "nothing was found",
  unavailable: "the search was not available",
  forbidden: "not allowed here, nothing was sent",
};

export const STATUSES = {
  verified: "quotation verified",
  supported: "supported by the source",
  unsupported: "not supported by the source",
};

const GATES = { documents: "Relevant passages", grounded: "Grounded", answers: "Answers the question" };
const RESULTS = { pass: "yes", fail: "no" };
const MARKS = { pass: "✓", fail: "✗" };

export const stage = (node) => STAGES[node] ?? spaced(node);
export const reason = (code) => REASONS[code] ?? spaced(code);
export const webStatus = (code) => WEB[code] ?? spaced(code);
export const counted = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;

const spaced = (code) => String(code).replaceAll("_", " ");

/** A gate's verdict. A judge that failed assessed nothing: that is never shown as a pass. */
export function verdict({ gate, result, reason: code }) {
  const said = `${MARKS[result] ?? "?"} ${GATES[gate] ?? gate}: ${RESULTS[result] ?? "not assessed"}`;
  return result === "pass" || !code || code === "not_assessed" ? said : `${said} (${reason(code)})`;
}

/** What a stage that ended did, from its counts. */
export function stageDone({ node, n_in, n_out, ms }) {
  const did = {
    retrieve_vector: () => counted(n_out, "candidate"),
    rerank_vector: () => `best ${n_out} of ${n_in}`,
    search_web: () => counted(n_out, "extract"),
    grade_documents: () => `${n_out} of ${n_in} kept, ${n_in - n_out} graded away`,
    assemble_sources: () => counted(n_out, "source"),
  }[node];
  const known = did && n_out != null ? `: ${did()}` : "";
  return `${stage(node)}${known}${ms == null ? "" : ` (${Math.round(ms)} ms)`}`;
}
