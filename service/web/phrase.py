"""The text that is sent to a search engine: short, plain words, without anything that the engine would obey."""

import re
from collections.abc import Collection

MAX_WORDS = 16
MAX_CHARS = 160
MAX_SITES = 8

# "!bang" sends a query on to another engine, a leading backslash opens the first result, a colon makes an operator.
_NOT_SAID = re.compile(r"[^\w\s.,/&%'’()+£$€§-]")
_EDGES = "-+.,/&'’()"


def phrased(words: str, domains: Collection[str] | None) -> str:
    """Return the query, limited to `domains` where there are any; "" where no word is left to ask about."""
    said: list[str] = []
    for word in _NOT_SAID.sub(" ", words).split():
        kept = word.strip(_EDGES)
        if not kept or len(said) == MAX_WORDS or sum(map(len, said)) + len(said) + len(kept) > MAX_CHARS:
            continue
        said.append(kept)
    if not any(character.isalnum() for character in "".join(said)):
        return ""
    # The engine is told only to find more of what is allowed; the results are held against the list anyway.
    sites = " OR ".join(f"site:{domain}" for domain in sorted(domains or ())[:MAX_SITES])
    return " ".join([*said, sites]).strip()
