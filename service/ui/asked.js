/** The question that this tab is asking. It outlives the page, which may be loaded anew before the answer is there. */

const KEY = "asked";

/** `asked` is {at, question, webSearch, thread: {id, skill}, runId}: `at` is the address's fragment it was asked under. */
export function keepAsked(asked) {
  stored((storage) => storage.setItem(KEY, JSON.stringify(asked)));
}

export function forgetAsked() {
  stored((storage) => storage.removeItem(KEY));
}

/** What was asked here and has no answer yet, or null. */
export function askedBefore() {
  return stored((storage) => JSON.parse(storage.getItem(KEY)));
}

/** A browser may keep nothing for a page: then a question is lost with the page, and nothing else is. */
function stored(work) {
  try {
    return work(sessionStorage);
  } catch {
    return null;
  }
}
