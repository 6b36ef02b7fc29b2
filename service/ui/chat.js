/** The chat page: one thread is shown, and at most one answer is being written. */

import { Problem, ask, exportPath, readRun, readThread, stopRun } from "./api.js";
import * as composer from "./composer.js";
import { announce, byId } from "./dom.js";
import { watchSession } from "./session.js";
import { invoked, loadSkills } from "./skills.js";
import { storedAnswer } from "./stored.js";
import { addressOf, markThread, refreshThreads, titleOf } from "./threads.js";
import { TurnView } from "./turn.js";
import * as web from "./web_switch.js";

const turns = byId("turns");
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
  live = { thread: inThread, turn, controller: new AbortController(), runId: "", stopped: false };
  const mine = live;
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
  }
  if (frame.type === "sources") learn(mine.thread, frame.items);
  if (frame.type === "done") finish(frame, mine);
  else mine.turn.show(frame);
}

function finish(answer, { thread: inThread, turn }) {
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

function brokenPage(error) {
  console.error(error);
  return new Problem({ code: "page", message: "Something went wrong on this page." });
}

function showProblem(problem, { turn, thread: inThread, runId }) {
  const signIn = problem.status === 401; // after it, the same question can be asked
  const mayRetry = signIn || problem.retryable || !(problem.status >= 400 && problem.status < 500);
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
    for (const item of stored.items) if (item.run_id !== live?.runId) putStored(item, wanted);
    turns.lastElementChild?.scrollIntoView();
    if (stored.busy && live?.thread !== wanted) showNote("This thread is answering in another window.");
  } catch (problem) {
    if (thread === wanted && wanted !== live?.thread) showNote(problem.message);
  }
}

function learn(inThread, sources) {
  for (const source of sources) inThread.sources.set(source.n, source);
}

function putStored(item, inThread) {
  const turn = new TurnView(item.question, item.web_search);
  turn.restore(item, inThread, ACTIONS);
  turns.append(turn.element);
}

function startThread(skill = "") {
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
window.addEventListener("popstate", open); // also fires when the address's fragment changes

/** A question that was refused for want of a key stays on the page, to be sent again. */
function entered() {
  if (!turns.childElementCount) open();
  refreshThreads();
  loadSkills().then(() => composer.showSkill(thread.skill));
}

watchSession(entered);
open();
refreshThreads();
loadSkills().then(() => composer.showSkill(thread.skill));
