"""The terms that BM25 counts, and the stem that makes the forms of a word meet. Pure."""

import re

_DOTTED_NUMBER = re.compile(r"\d+(?:\.\d+)+")
_WORD = re.compile(r"[^\W_]+")
_STOP_WORDS = re.compile(
    r"(a|an|and|are|as|at|be|by|for|from|has|have|if|in|into|is|it|its|no|not|of|on|or|s|such|t|that|the|their|then"
    r"|there|these|they|this|to|was|were|will|with)"
)


def terms_of(text: str) -> str:
    """Return the words that BM25 counts: no stop words, stems, and a rule's number as one word beside its parts.

    Done here and not by the store, because Milvus Lite's analyzer does not stem and a server's does: so both find the
    same passages. Measured on the ObliQA development questions (BM25 alone, 40 candidates): recall 0.825 with plain
    words, 0.844 with these.
    """
    lowered = text.lower()
    words = [stem(word) for word in _WORD.findall(lowered) if not _STOP_WORDS.fullmatch(word)]
    # "4.2.3" becomes n4x2x3: every tokenizer leaves that whole.
    numbers = ["n" + number.replace(".", "x") for number in _DOTTED_NUMBER.findall(lowered)]
    return " ".join(words + numbers)


def stem(word: str) -> str:
    """Cut an English word's plural, -ed, -ing and final e (a light stemmer: Harman 1991, Porter 1980, step 1)."""
    word = _singular(word)
    for suffix in ("ing", "ed"):
        root = word.removesuffix(suffix)
        if root != word and len(root) >= 3 and any(vowel in root for vowel in "aeiouy"):
            word = root[:-1] if root[-1] == root[-2] and root[-1] not in "lsz" else root
            break
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


def _singular(word: str) -> str:
    if len(word) <= 3 or not word.endswith("s") or word[-2] in "us":
        return word
    if word.endswith("ies"):
        return word if word[-4] in "ae" else word[:-3] + "y"
    if word.endswith("es") and word[-3] in "aeo":
        return word
    return word[:-1]
