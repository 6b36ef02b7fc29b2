"""Text for a Markdown file that anyone may open with anything: nothing in it can forge a heading, a link or an image.

Other programs follow links and load images that our own page shows as text (CommonMark 0.31 and GitHub's extensions:
bare addresses, footnotes). What is escaped here shows as the same characters there.
"""

import re

from service.citations.markers import NUMBER
from service.citations.render import in_code

_LINE_END = re.compile(r"\r\n|\n|\r")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_SPECIAL = re.compile(r"[\\`*_\[\]<>#|~&$]")
_SCHEME = r"(?:https?|ftp|mailto|xmpp)(?=:)|www(?=\.)"
_BARE_ADDRESS = re.compile(_SCHEME, re.IGNORECASE)
_OPENS_BLOCK = re.compile(r"\s*(?:(?=[-+=:])|[0-9]{1,9}(?=[.)]))")
_LINK = re.compile(r"https?://[!-;=?-~]+")

# In an answer: an escape that stands there already, a marker, and what begins HTML, an image, a footnote, a link's
# target or a definition, a bare address.
_LIVE = re.compile(
    rf"(?P<escape>\\[!-/:-@\[-`{{-~])|\[\[(?P<n>{NUMBER})\]\](?P<after>[(:]?)|(?P<html><)(?=[A-Za-z/!?])"
    rf"|(?P<image>!)(?=\[)|(?P<note>\[)(?=\^)|(?P<target>\])(?=[(:])|(?P<scheme>{_SCHEME})",
    re.IGNORECASE,
)


def plain(text: str) -> str:
    """Return `text` as part of a line of Markdown, not its beginning: it shows as the same words, whatever it holds."""
    return _escaped(" ".join(text.split()))


def plain_lines(text: str) -> list[str]:
    """Return the lines of `text` to stand in a block quote: they show as they are, with their line breaks."""
    lines = [_opening(_escaped(line)) for line in _LINE_END.split(text)]
    following = [*lines[1:], ""]
    return [f"{line}\\" if line and after else line for line, after in zip(lines, following, strict=True)]


def footnoted(answer: str) -> list[str]:
    """Return the lines of an answer, to stand in a block quote, with each `[[n]]` outside code as the footnote `[^n]`.

    All else is as the model wrote it, but for tabs, which are spaces (a quote would move their stops), and for what
    another program would follow or load, which is escaped: links, images, raw HTML, bare addresses, other footnotes.
    """
    answer = answer.expandtabs(4)
    code = in_code(answer, _LIVE)
    inert = _LIVE.sub(lambda found: found[0] if found.start() in code else _inert(found), answer)
    return _LINE_END.split(inert)


def quoted(lines: list[str]) -> str:
    """Return `lines` as a block quote. What stands open in them ends with it: a fence, a list, a comment."""
    return "\n".join(f"> {line}" if line else ">" for line in lines)


def address(link: str) -> str:
    """Return a link as one that opens; as plain text where it is no http(s) address."""
    return f"<{link}>" if _LINK.fullmatch(link) else plain(link)


def _inert(found: re.Match[str]) -> str:
    if found["n"]:
        return f"[^{found['n']}]" + (f"\\{found['after']}" if found["after"] else "")
    if found["target"] or found["scheme"]:
        return f"{found[0]}\\"
    return found[0] if found["escape"] else f"\\{found[0]}"


def _escaped(text: str) -> str:
    return _BARE_ADDRESS.sub(r"\g<0>\\", _SPECIAL.sub(r"\\\g<0>", _CONTROL.sub("\ufffd", text)))


def _opening(line: str) -> str:
    """Keep a line from being a list, a rule or an underline; four columns of white space would make it code."""
    if line.startswith("    ") or "\t" in line[: len(line) - len(line.lstrip())]:
        return f"&#{ord(line[0])};{line[1:]}"
    opens = _OPENS_BLOCK.match(line)
    return f"{opens[0]}\\{line[opens.end() :]}" if opens else line
