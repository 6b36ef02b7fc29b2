"""Text from clients, models, pages and files for a terminal or a log: nothing in it moves the cursor or forges a line.

Rich and typer take out no escape sequence: a page's title could rename the reader's terminal, clear it or turn the
text around (CWE-150; the bidirectional controls of Unicode's UTS 55).
"""

import unicodedata


def printable(text: str) -> str:
    """Return `text` with its line breaks and tabs, and every other character that would not print as an escape."""
    return text if text.isprintable() else "".join(c if c in "\n\t" else _printable(c) for c in text)


def on_one_line(text: str) -> str:
    """The same for what must not begin a line of its own: line breaks and tabs become escapes, too."""
    return text if text.isprintable() else "".join(map(_printable, text))


def _printable(character: str) -> str:
    if unicodedata.category(character) == "Zs":
        return " "
    return character if character.isprintable() else character.encode("unicode_escape").decode()
