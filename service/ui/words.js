/** What the codes of the wire and of the record mean, in plain words. */

const STAGES = {
  contextualize: "Reading the question",
  retrieve_vector: "Searching the knowledge base",
  rerank_vector: "Ranking the passages",
  search_web: "Searching the web",
  grade_documents: "Grading the passages",
  rewrite_query: "Rewording the search",
  give_up: "Ending without an answer",
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
  not_all_assessed: "no passage was found relevant, and some could not be graded",
  no_candidates: "the search found no passages",
  abstained: "the sources do not say enough",
  cut_short: "it was cut short",
  not_assessed: "a judge gave no usable verdict",
};

const FORKS = {
  "grade_documents>assemble_sources": "At least one passage was relevant, so an answer was written.",
  "grade_documents>rewrite_query": "Nothing relevant came back, so the search was reworded.",
  "grade_documents>give_up": "Nothing relevant came back and no rewording was left, so nothing was shown.",
  "generate>reflect": "The draft went to the judges.",
  "generate>give_up": "The writer found nothing to say in the sources, so it refused.",
  "reflect>finalize": "The draft was shown.",
  "reflect>prepare_regen": "The draft was not grounded, so it was withdrawn and written anew.",
  "reflect>rewrite_query": "The draft missed the question, so the search was reworded.",
  "reflect>give_up": "The draft did not pass, so it was not shown.",
};

const WEB = {
  off: "not asked",
  ok: "pages were found",
  empty: "nothing was found",
  unavailable: "the search was not available",
  forbidden: "not allowed here, nothing was sent",
  unfinished: "stopped before it answered",
};

export const STATUSES = {
  verified: "quotation verified",
  supported: "supported by the source",
  unsupported: "not supported by the source",
};

export const LABELS = { VECTOR: "Official texts", REFERENCE: "The practice's notes", WEB: "Live web pages" };
const LABEL_OF = { official: "VECTOR", reference: "REFERENCE", web: "WEB" };

const OUTCOMES = {
  answered: "Answered: both gates passed.",
  partial: "Shown with a warning.",
  refused: "Refused.",
  cancelled: "Stopped.",
  deadline: "Stopped at its deadline.",
  error: "Ended in an error.",
};

const GATES = { documents: "Relevant passages", grounded: "Grounded", answers: "Answers the question" };
const RESULTS = { pass: "yes", fail: "no" };
const MARKS = { pass: "✓", fail: "✗" };

const spaced = (code) => String(code).replaceAll("_", " ");

export const stage = (node) => STAGES[node] ?? spaced(node);
export const reason = (code) => REASONS[code] ?? spaced(code);
export const fork = ({ after, to }) => FORKS[`${after}>${to}`] ?? `${stage(after)}, then: ${stage(to)}`;
export const outcome = (code) => OUTCOMES[code] ?? spaced(code);
export const webStatus = (code) => WEB[code] ?? spaced(code);
export const labelOf = (kind) => LABEL_OF[kind] ?? "WEB";
export const counted = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
export const grade = (result) =>
  ({ pass: "relevant", fail: "graded not relevant", error: "could not be graded" })[result] ?? "not graded";

/** A time in ms as it is read: 0.4 ms, 31 ms, 2.4 s. */
export function took(ms) {
  if (ms >= 999.5) return `${(ms / 1000).toFixed(1)} s`;
  return ms >= 1 ? `${Math.round(ms)} ms` : "under 1 ms";
}

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
  return `${stage(node)}${known}${ms == null ? "" : ` (${took(ms)})`}`;
}
