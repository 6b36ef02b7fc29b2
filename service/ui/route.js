/** The way a run took through the graph, read from its record. */

const NEXT = {
  contextualize: ["retrieve_vector"],
  retrieve_vector: ["rerank_vector", "search_web"],
  rerank_vector: ["grade_documents"],
  rewrite_query: ["retrieve_vector"],
  assemble_sources: ["generate"],
  prepare_regen: ["generate"],
  give_up: ["finalize"],
};

/** Each step in order: {node, attempt, ms, n_in, n_out, reason}; what was not recorded is missing. */
export function stepsOf(record) {
  return record.steps?.length ? record.steps : walked(record);
}

/** The edges that were taken, as "from>to". */
export function edgesOf(record) {
  const nodes = stepsOf(record).map(({ node }) => node);
  const taken = new Set(record.forks.map(({ after, to }) => `${after}>${to}`));
  for (const node of nodes) for (const to of NEXT[node] ?? []) if (nodes.includes(to)) taken.add(`${node}>${to}`);
  if (nodes.includes("search_web") && nodes.includes("grade_documents")) taken.add("search_web>grade_documents");
  return taken;
}

/** Records of an earlier version have no `steps`: their forks and passes tell the way. A fork is the end of a leg. */
function walked(record) {
  const steps = [];
  const forks = [...record.forks];
  let wave = ["contextualize"];
  while (wave.length && wave.every((node) => node in record.timings)) {
    steps.push(...wave.map((node) => ({ node, attempt: 1 })));
    const [node] = wave;
    const at = forks.findIndex(({ after }) => after === node);
    if (at >= 0) wave = [forks.splice(at, 1)[0].to];
    else wave = NEXT[node] ?? [];
  }
  return steps.map((step, at) => counted(step, steps.slice(0, at), record));
}

/** Add what the passes know of the step; a time is there only where the node ran once. */
function counted(step, before, record) {
  const { node } = step;
  const round = before.filter((one) => one.node === node).length;
  const pass = record.passes[round];
  const drafts = record.drafts[round];
  const counts = {
    retrieve_vector: () => ({ n_out: pass.candidates.length }),
    rerank_vector: () => ({ n_in: pass.candidates.length, n_out: pass.grades.filter(({ label }) => label !== "WEB").length }),
    search_web: () => (pass.web ? { n_out: pass.web.strips.length, reason: pass.web.status } : { reason: "off" }),
    grade_documents: () => ({ n_in: pass.grades.length, n_out: pass.kept.length }),
    generate: () => ({ reason: drafts?.cut ?? "" }),
  }[node];
  const ran = record.forks.filter(({ to }) => to === node).length;
  const ms = ran > 1 || record.passes.length > 1 ? undefined : record.timings[node];
  return { ...step, ...(pass || node === "generate" ? counts?.() : {}), ms };
}
