/** The chat page: one thread is shown, and at most one answer is being written. */

import { Problem, ask, readThread, stopRun } from "./api.js";
import { el } from "./dom.js";
import { watchSession } from "./session.js";
import { allowsWeb, invoked, loadSkills, showSkill } from "./skills.js";
import { addressOf, markThread, refreshThreads } from "./threads.js";
import { TurnView } from "./turn.js";

const $ = (id) => document.getElementById(id);
const form = $("ask");
const box = $("question");
const web = $("web");

const STOPPED = new Problem({ code: "cancelled", message: "The answer was stopped.", retryable: true });

let thread = newThread(); // the thread that is shown
let live = null; // the answer being written: {thread, turn, controller, runId, stopped}

function newThread(id = "", skill = "") {
  return { id, skill, sources: new Map() };
}

// Asking

function submit(event) {
  event.preventDefault();
  const question = box.value.trim();
  if (live || !question) return;
  const skill = invoked(question);
  if (skill && skill !== thread.skill) startThread(skill); // a skill has a thread of its own
  const turn = new TurnView(question, web.checked);
  box.value = "";
  web.checked = false; // the web is asked for one question at a time
  grow();
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
  turn.finish(answer, inThread.sources);
  announce(turn.spoken());
  if (thread !== inThread) return;
  history.replaceState(null, "", addressOf(inThread));
  markThread(inThread);
  showLimits();
}

/** A stream that was cut may have ended well on the server: then the stored answer is shown. */
async function ended(problem, mine) {
  const stored = problem.code === "cut" && mine.runId ? await readThread(mine.thread).catch(() => null) : null;
  const answer = stored?.items.find(({ run_id }) => run_id === mine.runId);
  if (answer) {
    learn(mine.thread, stored.sources);
    finish(answer, mine);
    return;
  }
  if (mine.stopped) showProblem(STOPPED, mine);
  else showProblem(problem instanceof Problem ? problem : brokenPage(problem), mine);
}

function brokenPage(error) {
  console.error(error);
  return new Problem({ code: "page", message: "Something went wrong on this page." });
}

function showProblem(problem, { turn, thread: inThread }) {
  const mayRetry = problem.retryable || !(problem.status >= 400 && problem.status < 500);
  turn.fail(problem, { retry: mayRetry ? () => retry(turn, inThread) : null, edit: () => edit(turn.question) });
}

function retry(old, inThread) {
  if (live) return;
  const turn = new TurnView(old.question, old.webSearch);
  old.element.remove();
  put(turn);
  box.focus();
  run(turn, inThread);
}

function edit(question) {
  box.value = box.value ? `${box.value}\n${question}` : question;
  grow();
  box.focus();
}

function stop() {
  if (!live) return;
  const { runId, controller } = live;
  live.stopped = true;
  showRunning();
  if (runId) stopRun(runId).catch(() => controller.abort());
  else controller.abort(); // a reader who leaves stops the run too
}

// Threads

/** Show the thread that the address names. */
async function open() {
  const named = new URLSearchParams(location.hash.slice(1));
  const opened = newThread(named.get("thread") ?? "", named.get("skill") ?? "");
  thread = live && same(live.thread, opened) ? live.thread : opened;
  $("turns").replaceChildren();
  showNote("");
  markThread(thread);
  showLimits();
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
    $("turns").lastElementChild?.scrollIntoView();
    if (stored.busy && live?.thread !== wanted) showNote("This thread is answering in another window.");
  } catch (problem) {
    if (thread === wanted && wanted !== live?.thread) showNote(problem.message);
  }
}

function learn(inThread, sources) {
  for (const source of sources) inThread.sources.set(source.n, source);
}

function putStored(item, { sources }) {
  const turn = new TurnView(item.question, item.web_search);
  turn.finish(item, sources);
  $("turns").append(turn.element);
}

function startThread(skill = "") {
  history.pushState(null, "", location.pathname);
  open();
  thread.skill = skill;
  showLimits();
  box.focus();
}

const same = (one, other) => one.id === other.id && one.skill === other.skill;

/** What the thread's skill allows: the server holds to it, whatever this page shows. */
function showLimits() {
  showSkill(thread.skill);
  web.disabled = !allowsWeb(thread.skill);
  web.checked &&= !web.disabled;
  $("web-forbidden").hidden = !web.disabled;
  $("web-note").hidden = web.disabled;
}

// The page

function put(turn) {
  $("turns").append(turn.element);
  turn.element.scrollIntoView(); // once: the page does not move while someone reads
}

function announce(text) {
  $("announcer").replaceChildren(el("p", {}, text));
}

function showNote(text) {
  $("note").textContent = text;
}

/** Send and Stop take each other's place, and the focus with it. */
function showRunning() {
  const [shown, gone] = live ? [$("stop"), $("send")] : [$("send"), $("stop")];
  const focused = document.activeElement === gone;
  shown.hidden = false;
  if (focused) shown.focus();
  gone.hidden = true;
  $("stop").disabled = Boolean(live?.stopped);
  $("elsewhere").hidden = !live || live.thread === thread;
}

function grow() {
  box.style.height = "auto";
  box.style.height = `${box.scrollHeight + 2}px`;
}

function toggleMenu(open) {
  $("menu").setAttribute("aria-expanded", String(open));
  $("sidebar").classList.toggle("open", open);
}

form.addEventListener("submit", submit);
box.addEventListener("input", grow);
box.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
});
$("stop").addEventListener("click", stop);
$("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address's fragment names the thread
  box.focus();
});
$("new").addEventListener("click", () => startThread());
$("skill").addEventListener("change", ({ target }) => startThread(target.value));
$("threads").addEventListener("erased", ({ detail: erased }) => same(thread, erased) && startThread());
$("menu").addEventListener("click", () => toggleMenu($("menu").getAttribute("aria-expanded") !== "true"));
window.addEventListener("popstate", open); // also fires when the address's fragment changes
window.addEventListener("pageshow", () => (web.checked = false)); // a restored page must not restore the switch

/** A question that was refused for want of a key stays on the page, to be sent again. */
function entered() {
  if (!$("turns").childElementCount) open();
  refreshThreads();
  loadSkills().then(showLimits);
}

watchSession(entered);
open();
refreshThreads();
loadSkills().then(showLimits);
