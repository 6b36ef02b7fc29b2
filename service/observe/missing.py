"""What an operator is told of scores that cannot be had, by `MissingScore`'s code."""

from collections.abc import Iterable

MISSING = {
    "unavailable": "is the judge's server up, and are JUDGE_BASE_URL, JUDGE_API_KEY and JUDGE_MODEL right?",
    "timeout": "raise SCORE_TIMEOUT_S, or take a faster judge",
    "unusable": "the judge does not write what it is asked for; take another JUDGE_MODEL",
    "broken": "the log says why",
}


def told(codes: Iterable[str]) -> str:
    return "; ".join(f"{code}: {MISSING[code]}" if code in MISSING else code for code in codes)
