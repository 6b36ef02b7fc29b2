"""From a page's markup to the link: reader, directive and address together, on pages of our own."""

import pytest

from service.citations.text_fragment import directive, link
from service.knowledge.readers.html import read_html
from tests.citations.fragment_matcher import find

HTML = "text/html"
ADDRESS = "https://rules.test/p"


def linked(markup: str, passage: str, content_type: str = HTML, address: str = ADDRESS) -> str:
    page = read_html(markup.encode(), content_type=content_type)
    blocks = [block.text for block in page.blocks]
    cited = any(passage in block.text for block in page.blocks if not block.content)
    return link(address, "" if cited else directive(blocks, passage), content_type=content_type)


@pytest.mark.parametrize(
    ("markup", "passage", "expected"),
    [
        ("<p>Dues &amp; tolls fall due.", "Dues & tolls", "Dues%20%26%20tolls"),
        ("<p>The <b>rope</b>maker pays.", "The ropemaker pays.", "The%20ropemaker%20pays."),
        ("<p>Oars are kept<br>dry and clean", "Oars are kept dry and clean", "Oars%20are%20kept,dry%20and%20clean"),
        ("<ul><li>grease locks<li>oil hinges</ul>", "grease locks oil hinges", "grease%20locks,oil%20hinges"),
        ("<table><tr><td>Barge<td>nine tons</table>", "Barge nine tons", "Barge,nine%20tons"),
        ("<h2>Tolls</h2><p>Paid at dusk.", "Tolls Paid at dusk.", "Tolls,Paid%20at%20dusk."),
        ("<details><summary>More</summary><p>Locks close.</details>", "Locks close.", "Locks%20close."),
        ("<h3>Lock A</h3><p>Free today.<h3>Lock B</h3><p>Free today.", "Free today.", "Lock%20B-,Free%20today."),
        ("<p style='display:none'>Gone words.</p><p>Kept words.", "Kept words.", "Kept%20words."),
        ("<ol><li>The pilot keeps a log</ol>", "1. The pilot keeps a log", "The%20pilot%20keeps%20a%20log"),
    ],
)  # fmt: skip
def test_a_page_and_a_passage_make_the_expected_link(markup: str, passage: str, expected: str) -> None:
    assert linked(markup, passage) == f"{ADDRESS}#:~:text={expected}"
    blocks = [block.text for block in read_html(markup.encode()).blocks]
    assert find(f"text={expected}", blocks) is not None


@pytest.mark.parametrize(
    "markup",
    [
        "<p style='display:none'>The secret toll is nine.",
        "<p style='opacity:0'>The secret toll is nine.",
        "<img alt='The secret toll is nine.'>",
        "<script>var a = 'The secret toll is nine.'</script>",
        "<p hidden>The secret toll is nine.",
    ],
)
def test_text_that_nobody_sees_is_not_linked(markup: str) -> None:
    assert linked(f"{markup}</p><p>Open words.", "The secret toll is nine.") == ADDRESS


def test_plain_text_is_linked_and_xhtml_is_opened_at_its_top() -> None:
    said = "The toll is nine."
    assert linked(f"Tolls\n\n{said}\n", said, "text/plain").endswith("#:~:text=The%20toll%20is%20nine.")
    assert linked(f"<html><body><p>{said}</p></body></html>", said, "application/xhtml+xml") == ADDRESS


def test_a_page_that_has_changed_since_it_was_read_still_opens_at_its_element() -> None:
    """The directive is that of the stored page; a browser that does not find it goes to the element."""
    read = "<h3 id=s9>Nine</h3><p>The toll is nine."
    assert linked(read, "The toll is nine.", address=f"{ADDRESS}#s9") == f"{ADDRESS}#s9:~:text=The%20toll%20is%20nine."
