/** The routes the page calls. Every fault arrives as a `Problem`, whose message can be shown. */

import { frames } from "./sse.js";

const TICK_MS = 5000;
const SILENT_TICKS = 9; // the server pings after 15 s of silence; ticks, not a clock: a sleeping tab does not tick

export class Problem extends Error {
  /** `waitS` is how long the server asks to wait before the next try, in seconds. */
  constructor({ code, message, retryable = false, status = 0, waitS = 0 }) {
    super(message);
    Object.assign(this, { code, retryable, status, waitS });
  }
}

const unreachable = () =>
  new Problem({ code: "unreachable", message: "The server cannot be reached. Check your connection.", retryable: true });
const cut = () =>
  new Problem({ code: "cut", message: "The connection was cut before the answer was complete.", retryable: true });

async function send(method, path, { body, signal, accept = "application/json" } = {}) {
  const headers = { Accept: accept, ...(body && { "Content-Type": "application/json" }) };
  const init = { method, headers, signal, cache: "no-store", body: body && JSON.stringify(body) };
  const response = await fetch(path, init).catch(() => Promise.reject(unreachable()));
  if (response.ok) return response;
  if (response.status === 401) document.dispatchEvent(new CustomEvent("signed-out"));
  throw await problemOf(response);
}

async function problemOf(response) {
  const { error } = await response.json().catch(() => ({}));
  const said = error?.message ?? `The server answered with an error (HTTP ${response.status}).`;
  const wait = response.headers.get("Retry-After");
  const waitS = /^\d+$/.test(wait ?? "") ? Number(wait) : 0;
  const message = waitS && !error ? `${said} You can try again in ${waitS} s.` : said;
  const retryable = error?.retryable ?? response.status >= 500;
  return new Problem({ code: error?.code ?? "http_error", message, retryable, status: response.status, waitS });
}

const json = async (...request) => (await send(...request)).json().catch(() => Promise.reject(unreachable()));
const inSkill = (skill) => (skill ? `?${new URLSearchParams({ skill })}` : "");
const threadPath = ({ id, skill }) => `/threads/${encodeURIComponent(id)}${inSkill(skill)}`;

export const exportPath = ({ id, skill }) => `/threads/${encodeURIComponent(id)}/export${inSkill(skill)}`;
export const listSkills = () => json("GET", "/skills");
export const listThreads = async () => (await json("GET", "/threads")).threads;
export const readThread = (thread) => json("GET", threadPath(thread));
export const renameThread = (thread, title) => json("PATCH", threadPath(thread), { body: { title } });
export const eraseThread = (thread) => json("DELETE", threadPath(thread));
export const whoAmI = () => json("GET", "/session");
export const signIn = (key) => json("POST", "/session", { body: { key } });
export const signOut = () => json("DELETE", "/session");
export const readRun = (runId) => json("GET", `/runs/${encodeURIComponent(runId)}`);
export const giveFeedback = (runId, given) => json("POST", `/runs/${encodeURIComponent(runId)}/feedback`, { body: given });
export const stopRun = (runId) => json("DELETE", `/runs/${encodeURIComponent(runId)}`);

/** Ask, and yield the run's frames up to `done`. Throws a `Problem` for a refusal to start, an `error` frame or a cut. */
export async function* ask(body, controller) {
  let silent = 0;
  const watchdog = setInterval(() => ++silent > SILENT_TICKS && controller.abort(), TICK_MS);
  try {
    const response = await send("POST", "/chat", { body, signal: controller.signal, accept: "text/event-stream" });
    for await (const frame of frames(response.body, () => (silent = 0))) {
      if (frame.type === "error") throw new Problem(frame);
      yield frame;
      if (frame.type === "done") return;
    }
    throw cut();
  } catch (error) {
    throw error instanceof Problem ? error : cut();
  } finally {
    clearInterval(watchdog);
  }
}
