/** The chat page: one thread is shown, and at most one answer is being written. */

import { Problem, ask, exportPath, readRun, readThread, stopRun } from "./api.js";
import { askedBefore, forgetAsked, keepAsked } from "./asked.js";
import * as composer from "./composer.js";
import { announce, byId } from "./dom.js";
import { watchSession } from "./session.js";
import { invoked, loadSkills } from "./skills.js";
import { storedAnswer } from "./stored.js";
import { addressOf, markThread, refreshThreads, titleOf } from "./threads.js";
import { TurnView } from "./turn.js";
import * as web from "./web_switch.js";

const FOLLOW_MS = 2000; // between two looks at a thread that is answering in another window
const turns = byId("turns");
const LEFT = new Problem({
  code: "cut",
  message: "The page was left or loaded anew before the answer was complete, which stops it.",
  retryable: true,
});
const STOPPED = new Problem({ code: "cancelled", message: "The answer was stopped.", retryable: true });

let thread = newThread(); // the thread that is shown
let live = null; // the answer being written: {thread, turn, controller, runId, stopped}

function newThread(id = "", skill = "") {
  return { id, skill, sources: new Map() };
}

// Asking

function submit(question, webSearch) {
  if (live) return;
  const skill = invoked(question);
  if (skill && skill !== thread.skill) startThread(skill); // a skill has a thread of its own
  const turn = new TurnView(question, webSearch);
  composer.clear();
  put(turn);
  run(turn, thread);
}

async function run(turn, inThread) {
  live = { thread: inThread, turn, controller: new AbortController(), runId: "", stopped: false, at: location.hash };
  const mine = live;
  keep(mine);
  showRunning();
  try {
    for await (const frame of ask(requestOf(turn, inThread), mine.controller)) take(frame, mine);
  } catch (problem) {
    await ended(problem, mine);
  }
  live = null;
  showRunning();
  refreshThreads();
}

function requestOf({ question, webSearch }, { id, skill }) {
  return { question, web_search: webSearch, ...(id && { thread_id: id }), ...(skill && { skill }) };
}

function take(frame, mine) {
  if (frame.type === "run") {
    mine.runId = frame.run_id;
    mine.thread.id = frame.thread_id;
    mine.thread.skill = frame.skill?.name ?? "";
    keep(mine);
  }
  if (frame.type === "sources") learn(mine.thread, frame.items);
  if (frame.type === "done") finish(frame, mine);
  else mine.turn.show(frame);
}

function keep({ at, turn: { question, webSearch }, thread: { id, skill }, runId }) {
  keepAsked({ at, question, webSearch, thread: { id, skill }, runId });
}

function finish(answer, { thread: inThread, turn }) {
  forgetAsked();
  turn.finish(answer, inThread.sources, ACTIONS);
  announce(turn.spoken());
  if (thread !== inThread) return;
  history.replaceState(null, "", addressOf(inThread));
  markThread(inThread);
  composer.showSkill(inThread.skill);
}

/** A stream that was cut, as a sleeping tab's is, may have ended well on the server: then the stored answer is shown. */
async function ended(problem, mine) {
  const stored = problem.code === "cut" && mine.runId && !mine.stopped ? await storedAnswer(mine) : null;
  if (stored) {
    learn(mine.thread, stored.sources);
    finish(stored.answer, mine);
  } else if (mine.stopped) showProblem(STOPPED, mine);
  else showProblem(problem instanceof Problem ? problem : brokenPage(problem), mine);
}

/** The page was loaded anew while it was asking: the question stays, and so does an answer that was finished all the same. */
async function resume() {
  const asked = askedBefore();
  if (live || asked?.at !== location.hash) return;
  if (asked.runId && turnOf(asked.runId)) return forgetAsked();
  if (!asked.at) Object.assign(thread, asked.thread); // a first question: its thread is not in the address yet
  const turn = new TurnView(asked.question, asked.webSearch);
  put(turn);
  await ended(LEFT, { thread, turn, runId: asked.runId, stopped: false });
}

function brokenPage(error) {
  console.error(error);
  return new Problem({ code: "page", message: "Something went wrong on this page." });
}

function showProblem(problem, { turn, thread: inThread, runId }) {
  const signIn = problem.status === 401; // after it, the same question can be asked
  const mayRetry = signIn || problem.retryable || !(problem.status >= 400 && problem.status < 500);
  if (!mayRetry || problem === STOPPED) forgetAsked();
  turn.fail(problem, { retry: mayRetry ? () => retry(turn, inThread) : null, edit: () => composer.fill(turn.question) });
  if (turn.webSearch && runId) tellWhatLeft(turn, runId);
}

/** A run that failed may have asked the web before: its record knows the words that left. */
async function tellWhatLeft(turn, runId) {
  const found = await readRun(runId).catch(() => null);
  const { query = "", status = "off" } = found?.record.passes.findLast((pass) => pass.web)?.web ?? {};
  if (query) turn.tellWeb(found.record.sent_to_web, status);
}

function retry(old, inThread) {
  if (live) return;
  const turn = new TurnView(old.question, old.webSearch);
  old.element.remove();
  put(turn);
  composer.focusBox();
  run(turn, inThread);
}

function stop() {
  if (!live || live.stopped) return;
  const { runId, controller } = live;
  live.stopped = true;
  showRunning();
  if (runId) stopRun(runId).catch(() => controller.abort());
  else controller.abort(); // a reader who leaves stops the run too
}

/** What an answer may do with the page. */
const ACTIONS = {
  edit: (question) => composer.fill(question),
  flipWeb(question, on) {
    if (web.choose(on)) composer.fill(question);
  },
  whyNoWeb: () => web.whyForbidden(),
};

// Threads

/** Show the thread that the address names. */
async function open() {
  const named = new URLSearchParams(location.hash.slice(1));
  const opened = newThread(named.get("thread") ?? "", named.get("skill") ?? "");
  thread = live && same(live.thread, opened) ? live.thread : opened;
  turns.replaceChildren();
  showNote("");
  markThread(thread);
  composer.showThread(thread.skill);
  toggleMenu(false);
  if (opened.id) await load(thread);
  if (thread === live?.thread) put(live.turn);
  showRunning();
}

async function load(wanted) {
  try {
    const stored = await readThread(wanted);
    if (thread !== wanted) return; // another one was opened meanwhile
    learn(wanted, stored.sources);
    const missing = stored.items.filter(({ run_id }) => run_id !== live?.runId && !turnOf(run_id));
    for (const item of missing) putStored(item, wanted);
    if (missing.length) turns.lastElementChild.scrollIntoView();
    const elsewhere = stored.busy && live?.thread !== wanted;
    showNote(elsewhere ? "This thread is answering in another window." : "");
    if (elsewhere) follow(wanted);
  } catch (problem) {
    if (thread === wanted && wanted !== live?.thread) showNote(problem.message);
  }
}

/** Another window asks in this thread: its answer is shown here too, once it is there. */
async function follow(wanted) {
  await new Promise((done) => setTimeout(done, FOLLOW_MS));
  if (thread === wanted && !document.hidden) load(wanted); // a tab that was hidden looks again when it is seen
}

/** A tab that is seen again may have missed what another one did. */
function seenAgain() {
  if (document.hidden || live) return;
  refreshThreads();
  if (thread.id && addressOf(thread) === location.hash) load(thread);
}

const turnOf = (runId) => turns.querySelector(`[data-run="${CSS.escape(runId)}"]`);

function learn(inThread, sources) {
  for (const source of sources) inThread.sources.set(source.n, source);
}

function putStored(item, inThread) {
  const turn = new TurnView(item.question, item.web_search);
  turn.restore(item, inThread, ACTIONS);
  turns.append(turn.element);
}

function startThread(skill = "") {
  if (!live) forgetAsked();
  history.pushState(null, "", location.pathname);
  open();
  thread.skill = skill;
  composer.showThread(skill);
  composer.focusBox();
}

const same = (one, other) => one.id === other.id && one.skill === other.skill;

// The page

function put(turn) {
  turns.append(turn.element);
  showRunning();
  turn.element.scrollIntoView(); // once: the page does not move while someone reads
}

function showNote(text) {
  byId("note").textContent = text;
}

/** Send and Stop take each other's place, and the focus with it. */
function showRunning() {
  const [shown, gone] = live ? [byId("stop"), byId("send")] : [byId("send"), byId("stop")];
  const focused = document.activeElement === gone;
  shown.hidden = false;
  if (focused) shown.focus();
  gone.hidden = true;
  byId("stop").setAttribute("aria-disabled", String(Boolean(live?.stopped))); // `disabled` would drop the focus
  byId("elsewhere").hidden = !live || live.thread === thread;
  byId("welcome").hidden = Boolean(thread.id || turns.childElementCount);
  showBar();
}

/** The thread's title and its export, once there is something to export. */
function showBar() {
  const title = thread.id ? titleOf(thread) : "";
  byId("thread-bar").hidden = !title;
  byId("thread-title").textContent = title;
  if (title) byId("export").href = exportPath(thread);
}

function toggleMenu(isOpen) {
  byId("menu").setAttribute("aria-expanded", String(isOpen));
  byId("sidebar").classList.toggle("open", isOpen);
}

composer.watchComposer({ send: submit, leaveSkill: () => startThread() });
byId("stop").addEventListener("click", stop);
byId("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address's fragment names the thread
  composer.focusBox();
});
byId("new").addEventListener("click", () => startThread());
byId("threads").addEventListener("erased", ({ detail: erased }) => same(thread, erased) && startThread());
byId("threads").addEventListener("listed", showBar);
byId("menu").addEventListener("click", () => toggleMenu(byId("menu").getAttribute("aria-expanded") !== "true"));
document.addEventListener("visibilitychange", seenAgain);
window.addEventListener("popstate", open); // also fires when the address's fragment changes

/** A question that was refused for want of a key stays on the page, to be sent again. */
function entered() {
  if (!turns.childElementCount) open();
  refreshThreads();
  loadSkills().then(() => composer.showSkill(thread.skill));
}

Promise.all([watchSession(entered), open()]).then(resume);
refreshThreads();
loadSkills().then(() => composer.showSkill(thread.skill));
