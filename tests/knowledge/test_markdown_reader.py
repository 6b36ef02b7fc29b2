from itertools import pairwise

import pytest

from service.errors import IngestError
from service.knowledge.readers import read_page
from service.knowledge.readers.markdown import read_markdown
from service.model import Block

NOTE = """---
title: "Client money: late receipts"
tags: [cm, late]
---
# Late receipts

The rule is *strict*: see [CM 3.1.2](https://rules.test/cm#3)
and `CM 3.1.3`.

- Call the bank
  - and note it

| Day | Fee |
|---|---|
| one<br>two | 10 |

## Why
> “Receipt” is wide.

```
a  b
```
"""


def texts(markdown: str) -> list[str]:
    return [block.text for block in read_markdown(markdown).blocks]


def test_a_note_is_read_as_it_is_rendered() -> None:
    page = read_markdown(NOTE)
    assert page.title == "Client money: late receipts"
    assert [block.text for block in page.blocks] == [
        "Late receipts",
        "The rule is strict: see CM 3.1.2 and CM 3.1.3.",
        "Call the bank",
        "and note it",
        "Day",
        "Fee",
        "one",
        "two",
        "10",
        "Why",
        "“Receipt” is wide.",
        "a  b",
    ]
    assert page.blocks[-1].headings == ("Late receipts", "Why")


def test_every_block_of_a_note_is_content() -> None:
    assert all(block.content for block in read_markdown(NOTE).blocks)


def test_the_title_is_the_front_matter_s_else_the_first_heading_else_the_file_name() -> None:
    assert read_markdown("# One\n\n## Two").title == "One"
    assert read_page("notes/late.md", b"text").title == "late"
    assert read_markdown("---\ntitle: 2031\n---\n# One").title == "2031"
    assert read_markdown("---\nauthor: A\n...\n# One").title == "One"


def test_raw_html_is_left_out() -> None:
    assert texts("a <b onclick=x>b</b> c<br>d <!-- say nil -->\n\n<div>hidden</div>\n\n<script>x</script>\n\nend") == [
        "a b c",
        "d",
        "end",
    ]


def test_html_in_code_and_entities_are_text() -> None:
    assert texts("Use `<main>` &amp; \\<nav>\n\n    <p>x</p>") == ["Use <main> & <nav>", "<p>x</p>"]


def test_a_rule_line_in_the_text_is_no_front_matter() -> None:
    assert texts("Text\n\n---\n\nmore: text\n\n---\n") == ["Text", "more: text"]


@pytest.mark.parametrize(
    "front",
    ["title: [", "title: {a: b}", "[" * 10_000, "a: !!python/object/apply:os.system [id]", "x: " + "y" * 70_000],
)
def test_front_matter_that_cannot_be_read_is_refused(front: str) -> None:
    with pytest.raises(IngestError, match="front matter"):
        read_markdown(f"---\n{front}\n---\ntext")


def test_an_alias_bomb_in_the_front_matter_does_not_unfold() -> None:
    names = "abcdefgh"
    bomb = "a: &a [x,x]\n" + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in pairwise(names))
    assert read_markdown(f"---\n{bomb}title: T\n---\ntext").title == "T"


def test_the_number_that_opens_a_paragraph_is_its_section() -> None:
    assert read_markdown("## 4. Money\n\n4.1 The firm must act.").blocks == (
        Block("4. Money", True, ("4. Money",), "4", ""),
        Block("4.1 The firm must act.", True, ("4. Money",), "4.1", ""),
    )


def test_a_byte_order_mark_is_no_text() -> None:
    page = read_page("a.md", b"\xef\xbb\xbf---\ntitle: T\n---\n# One")
    assert (page.title, [block.text for block in page.blocks]) == ("T", ["One"])
