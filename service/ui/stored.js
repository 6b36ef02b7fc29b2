/** The answer of a run whose stream was cut: the server may have finished it, and keeps it then. */

import { readRun, readThread } from "./api.js";

const TRIES = 6;
const PAUSE_MS = 1500;

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** Resolves to {answer, sources} as the thread holds them, or null where the run left no answer. */
export async function storedAnswer({ thread, runId }) {
  await awake();
  for (let tries = 0; tries < TRIES; tries++) {
    const stored = await readThread(thread).catch((problem) => problem);
    const answer = stored.items?.find(({ run_id }) => run_id === runId);
    if (answer) return { answer, sources: stored.sources };
    const waits = stored.busy || stored.code === "unreachable" || (await isUnderWay(runId));
    if (!waits) return null;
    await pause(PAUSE_MS); // the connection is not back yet, or the run still goes on
  }
  return null;
}

/** A first question's thread is not known before its answer is stored; its run is. */
const isUnderWay = (runId) => readRun(runId).then(() => false, (problem) => problem.status === 409);

/** A hidden tab asks nothing: its timers and its connection may sleep. */
function awake() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((seen) => {
    const look = () => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", look);
      seen();
    };
    document.addEventListener("visibilitychange", look);
  });
}
