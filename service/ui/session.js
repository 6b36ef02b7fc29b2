/** Signing in and out. The key goes to the server once; the cookie that comes back is out of reach of scripts. */

import { forgetAsked } from "./asked.js";
import { signIn, signOut, whoAmI } from "./api.js";

const form = document.getElementById("sign-in");
const key = document.getElementById("key");
const note = document.getElementById("sign-in-note");
const leave = document.getElementById("sign-out");

/** Show the form where a key is needed. `entered` is called after each sign-in. */
export async function watchSession(entered) {
  document.addEventListener("signed-out", () => show(null, false));
  form.addEventListener("submit", (event) => enter(event, entered));
  leave.addEventListener("click", quit);
  const { client, signed_in } = await whoAmI().catch(() => ({ client: "", signed_in: false })); // the list says what is wrong
  if (client === null) forgetAsked(); // who signs in next may be somebody else
  show(client, signed_in);
}

function show(client, signedIn) {
  const needed = client === null;
  if (needed && form.hidden) form.scrollIntoView();
  form.hidden = !needed;
  leave.hidden = !signedIn;
  leave.textContent = signedIn ? `Sign out ${client}` : "Sign out";
  if (needed) key.focus();
}

async function enter(event, entered) {
  event.preventDefault();
  try {
    const { client } = await signIn(key.value.trim());
    key.value = "";
    note.textContent = "";
    if (follow(new URLSearchParams(location.search).get("next"))) return;
    show(client, true);
    entered();
  } catch (problem) {
    note.textContent = problem.message;
    key.select();
  }
}

/** Go on to the source whose link asked for the sign-in; to no other place. */
function follow(next) {
  const wanted = next && URL.canParse(next, location.origin) && new URL(next, location.origin);
  if (!wanted || wanted.origin !== location.origin || !wanted.pathname.startsWith("/sources/")) return false;
  location.replace(wanted);
  return true;
}

async function quit() {
  try {
    await signOut();
    forgetAsked();
    location.replace("/"); // nothing of the signed-in client stays on the page
  } catch (problem) {
    document.getElementById("note").textContent = `You are still signed in. ${problem.message}`;
  }
}
