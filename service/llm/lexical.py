"""What Quote does with words alone: follow-ups, richer queries, and the cutting of a passage into quotable units."""

import re
from collections import Counter
from collections.abc import Sequence

from service.knowledge.sentences import sentences
from service.knowledge.terms import stem
from service.llm.kinds import CONTRASTS, Modified
from service.model import Passage

WORD = re.compile(r"[^\W_]+(?:[-’'.][^\W_]+)*")

STOP_LIST = """
a about above after again all also am an and any are as at be been before being below between both but by can
could did do does doing done down during each few for from further get had has have having he her here hers him
his how i if in into is it its itself just me more most must my no nor not now of off on once only or other our
out over own please same say says shall she should so some such tell than that the their them then there these
they this those through to too under until up upon us very was we were what when where which while who whom
whose why will with would you your need needs long much many often
"""
STOP_WORDS = frozenset(STOP_LIST.split())

OPENINGS = re.compile(
    r"^(?:and|but|or|also|then|what about|how about|what if|and if|does that|is that|do they|does it|is it|same|"
    r"in that case|for those|for them)\b",
    re.IGNORECASE,
)
WEAK_OPENING = re.compile(r"^(?:(?:so|why|ok(?:ay)?)\b\W*)+", re.IGNORECASE)
"""What opens a continuation, and as well a question that names its topic: "Why must a firm keep its records?"."""
# Without two ways to read the same white space or marks: a question may hold thousands of them.
DEFINED = re.compile(
    r"^what(?:'s| is| are)( an?)? ([^?.!]+)(?:[?.!]\W*)?$|^what does( an?)? ([^?.!]+) mean\b[^?.!\w]*(?:[?.!]\W*)?$",
    re.IGNORECASE,
)
CARRIED = re.compile(r"(?P<own>.*\S) \((?P<topic>[^()]+)\)", re.DOTALL)
POINTER_LIST = "it its they them their this that these those there such same one ones former latter he she"
POINTERS = frozenset(POINTER_LIST.split())
UNNAMING = (STOP_WORDS - {"own"}) | POINTERS
"""What the name of a thing does not hold; "own funds" is one."""

MARKER_LIKE = re.compile(r"\[\[\d+\]\]")
JOINED_NUMBER = re.compile(r"(\d+(?:\.\d+)*)(?:-[^\W\d_]{2}|(?:st|nd|rd|th)(?:-|$))")
ENUMERATOR = re.compile(r"(?:^|(?<=[.?!;:]\s))[^\S\n]*\(?\d{1,2}[.):](?=\s)", re.MULTILINE)
DATELINE = re.compile(
    r"(?:version [\w.]+ )?(?:this )?(?:page )?(?:was )?(?:first |last )?(?:updated|reviewed|published)\b[^.]{0,40}"
    r"(?:19|20)\d\d\.?$",
    re.IGNORECASE,
)
DATING_WORDS = frozenset({"updated", "update", "reviewed", "published", "page", "current", "version"})
WITHIN_SENTENCE = re.compile(r"(?<=[\w,;:)\]’'\"] )[^\W\d_]*[A-Z][\w’'.-]*")
ITEM = re.compile(r"\((?:[a-z]{1,4}|\d{1,2})\)\s")
TOPIC_WORDS = 8
ADDED_WORDS = 6
WEB_WORDS = 12
EDGES = "?!.,;:()[]{}\"'“”‘’«»…"
UNIT_MIN = 60
UNIT_MAX = 700


def words(text: str) -> list[str]:
    """Lower-case words of a text, in order."""
    return [match.group().lower().replace("’", "'") for match in WORD.finditer(text)]


def terms(text: str) -> list[str]:
    """Stems of the words that carry meaning, in order, repeats kept."""
    return [stem(word) for word in words(text) if word not in STOP_WORDS and (len(word) > 1 or word.isdigit())]


def coverage(question: str, text: str) -> float:
    """Share (0..1) of the question's terms that stand in the text; 0 for a question without terms."""
    asked = set(terms(question))
    return len(asked & set(terms(text))) / len(asked) if asked else 0.0


def is_vague(question: str) -> bool:
    """Whether a question has fewer than two terms that carry meaning."""
    return len(set(terms(question))) < 2


def is_brief(question: str) -> bool:
    """Whether a question has so few terms, at most two, that a passage on its subject must hold one of them.

    A cross-encoder that is given two words alone finds something near to anything, nonsense included.
    """
    return len(set(terms(question))) <= 2


def unquotable(question: str, text: str) -> bool:
    """Whether a piece of a source is no answer, however it scores.

    What looks like one of our markers would cite another source once it is quoted. A line that dates its page says
    something only to a question about that.
    """
    if MARKER_LIKE.search(text):
        return True
    return DATELINE.match(text) is not None and not set(words(question)) & DATING_WORDS


def figures(text: str) -> set[str]:
    """The figures, dates and identifiers of a text ("2031", "out-2", "15,000"): what has a digit in it.

    What is joined to a bare number is its unit, ordinal or genitive: "14-day", "1st" and "2031's" name 14, 1 and 2031.
    An identifier and a date stand whole: "out-2", "4.2.3", "10-k", "2031-q1", "2031-07-01".
    """
    said = (word.removesuffix("'s") for word in words(text) if any(character.isdigit() for character in word))
    return {found[1] if (found := JOINED_NUMBER.match(word)) else word for word in said}


def names(question: str) -> set[str]:
    """The figures, dates and identifiers that a question names.

    A citation mark is none, "what does [[1]] say" asks about a source and not about the figure 1; nor is the number of
    an item, "1. How long ...? 2. Who ...?".
    """
    return figures(ENUMERATOR.sub(" ", MARKER_LIKE.sub(" ", question)))


def proper_names(question: str) -> set[str]:
    """The words that a question capitalises within a sentence ("Vellmark", "Form"), in lower case."""
    said = [match.group() for match in WITHIN_SENTENCE.finditer(question)]
    return {word for one in said for word in words(one) if word not in STOP_WORDS}


def is_follow_up(question: str) -> bool:
    """Whether a question leans on the turn before: it opens as a continuation, points back, or names nothing."""
    asked = WEAK_OPENING.sub("", question.strip())
    if OPENINGS.search(asked):
        return True
    if asks_for_a_meaning(asked):
        return False
    said, content = words(asked), content_words(asked)
    points_back = any(word in POINTERS for word in said)
    return len(content) <= 2 or (points_back and len(content) <= 6 and not antecedent_before_pointer(said))


def content_words(text: str) -> list[str]:
    return [word for word in words(text) if word not in STOP_WORDS]


def asks_for_a_meaning(question: str) -> bool:
    """Whether it asks what something is that it names itself: two words of content, or one with "a", and no others."""
    found = DEFINED.match(question.replace("’", "'"))
    if not found:
        return False
    noun = words(found[2] or found[4])
    least = 1 if found[1] or found[3] else 2
    return len(noun) >= least and not any(word in UNNAMING for word in noun)


def antecedent_before_pointer(said: Sequence[str]) -> bool:
    """Whether two words of content stand before the first pointing word: it points inside the question."""
    first = next(index for index, word in enumerate(said) if word in POINTERS)
    return sum(word not in STOP_WORDS for word in said[:first]) >= 2


def carry_topic(previous: str, question: str) -> str:
    """The question with the last turn's topic words behind it, in brackets; `own_words` takes them off again."""
    known = set(terms(question))
    replaced = replaced_words(question)
    # A letter alone ("category B") says nothing without its noun, and would bring back what the follow-up replaces.
    topic = [word for word in content_words(previous) if len(word) > 1 and stem(word) not in known | replaced]
    if not leans_on_figures(question):
        topic = [word for word in topic if not names(word)]
    unique = list(dict.fromkeys(topic))[:TOPIC_WORDS]
    return f"{question.strip()} ({' '.join(unique)})" if unique else question


def replaced_words(question: str) -> set[str]:
    """Stems of the words for the other kinds, where the question names one ("the annual one": "quarterly")."""
    return {stem(word) for kinds in CONTRASTS if isinstance(kinds, Modified) for word in kinds.replaced(question)}


def leans_on_figures(question: str) -> bool:
    """Whether the figures of the turn before are still meant: it puts none, no name and no new subject in their place.

    A name beside a pointer is no such place: "does it go to the Authority?".
    """
    points_back = any(word in POINTERS for word in words(question))
    turns_away = proper_names(question) or asks_for_a_meaning(OPENINGS.sub("", question.strip()).lstrip(" ,"))
    return not names(question) and (points_back or not turns_away)


def own_words(question: str) -> str:
    """The question without what `carry_topic` put behind it, which is sought behind a follow-up only.

    What only the turn before named may help to find a passage. It is no ground to reject one. Words that a person put
    in such brackets behind a question like a follow-up ("how long to cancel? (14 days)") are taken off as well: nothing
    tells them from carried ones, and what they name then rejects no passage.
    """
    found = CARRIED.fullmatch(question)
    if not found or not is_follow_up(found["own"]):
        return question
    topic = found["topic"].split(" ")
    carried = len(topic) <= TOPIC_WORDS and topic == content_words(found["topic"])
    return found["own"] if carried else question


def enrich(question: str, tried: str, seen: Sequence[Passage]) -> str:
    """`tried` with the corpus's own words for its subject: the commonest terms of the headings that came back."""
    known = set(terms(tried)) | set(terms(question))
    counts: Counter[str] = Counter()
    spelled: dict[str, str] = {}
    for passage in seen[:10]:
        # Each once, in the order of the text: a set would let chance decide between words that are equally common.
        for word in dict.fromkeys(words(passage.context)):
            if word not in STOP_WORDS and stem(word) not in known and not word[0].isdigit():
                counts[stem(word)] += 1
                spelled.setdefault(stem(word), word)
    added = [spelled[term] for term, _ in counts.most_common(ADDED_WORDS)]
    return " ".join([tried, *added])


def web_query(question: str) -> str:
    """The question's words of content, as it writes them, each once; its own words where it has no others."""
    said = [word for part in question.split() if (word := part.strip(EDGES))]
    content = [word for word in said if word.lower().replace("’", "'") not in STOP_WORDS]
    chosen = {word.lower(): word for word in reversed(content or said)}
    return " ".join(list(reversed(chosen.values()))[:WEB_WORDS])


def units(text: str) -> list[tuple[int, int]]:
    """Cut a passage into the smallest pieces that can be quoted by themselves, as (start, end) of `text`.

    A sentence; a lead-in that ends with a colon together with the lines it introduces; a short line (a table cell, a
    list item) together with its neighbours. No unit is longer than `UNIT_MAX` characters unless one sentence is.
    """
    found: list[tuple[int, int]] = []
    for start, end in sentences(text):
        if found and joins(text, found[-1], (start, end)):
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    if len(found) > 1 and found[-1][1] - found[-1][0] < UNIT_MIN and may_join(text, found[-2], found[-1]):
        found[-2:] = [(found[-2][0], found[-1][1])]
    return found


def may_join(text: str, unit: tuple[int, int], following: tuple[int, int]) -> bool:
    """Whether two neighbours are short enough for one unit, and neither only dates the page."""
    dated = any(DATELINE.match(text[start:end].strip()) for start, end in (unit, following))
    return following[1] - unit[0] <= UNIT_MAX and not dated


def joins(text: str, unit: tuple[int, int], following: tuple[int, int]) -> bool:
    said = text[unit[0] : unit[1]].rstrip()
    if not may_join(text, unit, following):
        return False
    goes_on = said.endswith((":", "—", ";", ",", " and", " or"))
    is_item = ITEM.match(text, following[0]) is not None
    return goes_on or is_item or len(said) < UNIT_MIN
