"""GET /sources/{passage_id}: the stored page with the quote marked, as a link or a citation opens it."""

from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx
from selectolax.lexbor import LexborHTMLParser

from service.knowledge.snapshots import Snapshots
from service.model import Block, Candidate, Page, Passage, Span
from service.ports import WebFindings
from tests.api.stalling import stalling
from tests.fakes import FixedKnowledge, ScriptedModel, ScriptedWeb, passage, services, snapped, stored
from tests.running import House
from tests.served import Served, serving
from tests.wire import of

JSON = {"Accept": "application/json"}
EVIL = '</mark></p><script>alert(1)</script> & <img src=x onerror=alert(1)> “it\'s "so"”.'


def page(answer: httpx.Response) -> LexborHTMLParser:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return LexborHTMLParser(answer.text)


def marked(answer: httpx.Response) -> str:
    return "\n".join(mark.text() for mark in page(answer).css("mark"))


def text_of(answer: httpx.Response, tag: str) -> str:
    [element] = page(answer).css(tag)
    return element.text()


def house(folder: Path, *passages: Passage) -> tuple[House, FixedKnowledge]:
    knowledge = FixedKnowledge(list(passages) or [passage(n) for n in range(1, 4)])
    return House(services(folder, knowledge=knowledge), ScriptedModel()), knowledge


async def test_a_source_is_json_on_request(tmp_path: Path) -> None:
    home, knowledge = house(tmp_path)
    item = knowledge.passages[0]
    async with serving(home) as served:
        detail = (await served.client.get(f"/sources/{item.passage_id}", headers=JSON)).json()
    assert detail == {
        "passage_id": item.passage_id,
        "sha256": item.sha256,
        "label": "VECTOR",
        "title": "Rulebook 1",
        "source": "rules",
        "address": "part/1.html",
        "section": "R 1",
        "fetched_at": "2031-01-01T00:00:00Z",
        "text": item.text,
        "blocks": [item.text],
    }


async def test_every_quote_of_a_stream_stands_verbatim_in_its_source(tmp_path: Path) -> None:
    """U06: the quote of source n stands in source n alone."""
    home, _ = house(tmp_path, *(passage(n, f"First\u00a0of {n}. “Second” of {n}; the third.") for n in range(1, 6)))
    async with serving(home) as served:
        frames = await served.frames()
        items = [item for frame in of(frames, "sources") for item in frame["items"]]
        ids = {item["n"]: (item["passage_id"], item["sha256"]) for item in items}
        assert len(items) == 5
        assert frames[-1]["citations"]
        for item in [*items, *frames[-1]["citations"]]:
            passage_id, sha256 = ids[item["n"]]
            detail = (await served.client.get(f"/sources/{passage_id}?v={sha256}", headers=JSON)).json()
            assert item["quote"]
            assert item["quote"] in detail["text"]


async def test_the_quote_is_marked_and_nothing_else(tmp_path: Path) -> None:
    home, _ = house(tmp_path, passage(1, "Before it. The fee is “5” crowns &\u00a0more. After it."))
    said = "The fee is “5” crowns &\u00a0more."
    async with serving(home) as served:
        answer = await served.client.get("/sources/p000000000000001", params={"q": said})
    assert marked(answer) == said
    [place] = page(answer).css("#quote")
    assert place.text() == f"Before it. {said} After it."


async def test_without_a_quote_that_stands_the_whole_passage_is_marked(tmp_path: Path) -> None:
    home, knowledge = house(tmp_path)
    async with serving(home) as served:
        for query in ("", "q=", "q=words+that+are+not+there", "q=%F0%28%8C%28", "q=%ED%A0%80", "q=%00"):
            answer = await served.client.get(f"/sources/p000000000000001?{query}")
            assert marked(answer) == knowledge.passages[0].text, query


async def test_a_quote_over_two_blocks_is_marked_in_both(tmp_path: Path) -> None:
    home, knowledge = house(tmp_path)
    blocks = (Block("Menu", content=False), Block("A heading"), Block("One two three."), Block("Four five six."))
    spans = (Span(2, 0, 14), Span(3, 0, 14))
    page_read = Page("Two blocks", blocks)
    place = {"source": "rules", "kind": "official", "address": "two.html"}
    sha256 = home.services.snapshots.hash_of(page_read, "rules", "official", "two.html")
    item = replace(passage(9, "One two three.\nFour five six."), spans=spans, sha256=sha256, address=place["address"])
    home.services.snapshots.put(
        page_read, source="rules", kind="official", address="two.html", fetched_at="2031", passages=[item]
    )
    knowledge.passages.append(item)
    async with serving(home) as served:
        answer = await served.client.get(f"/sources/{item.passage_id}", params={"q": "three.\nFour five"})
    assert marked(answer) == "three.\nFour five"
    assert "Menu" not in text_of(answer, "main")
    assert len(page(answer).css("#quote")) == 1


async def test_what_a_source_says_is_text_and_never_markup(tmp_path: Path) -> None:
    """U21."""
    evil = replace(passage(1, EVIL), title="<script>alert(2)</script>", address='x"><script>3</script>', section="<i>")
    home, _ = house(tmp_path, evil)
    async with serving(home) as served:
        answer = await served.client.get(f"/sources/{evil.passage_id}", params={"q": EVIL})
        detail = (await served.client.get(f"/sources/{evil.passage_id}", headers=JSON)).json()
    shown = page(answer)
    assert shown.css("script, img, i, iframe, style") == []
    assert marked(answer) == EVIL == detail["text"]
    assert text_of(answer, "title") == text_of(answer, "h1") == "<script>alert(2)</script>"
    assert {link.attributes["href"] for link in shown.css("a")} == {"#quote"}


async def test_the_page_may_load_nothing_from_outside(tmp_path: Path) -> None:
    home, _ = house(tmp_path)
    async with serving(home) as served:
        for path in ("/sources/p000000000000001", "/sources/unknown", "/", "/healthz"):
            headers = (await served.client.get(path)).headers
            policy = headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; script-src 'self';")
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"


async def test_an_old_version_stays_when_the_index_has_moved_on(tmp_path: Path) -> None:
    home, knowledge = house(tmp_path, passage(1, "The old rule."))
    old = knowledge.passages[0]
    async with serving(home) as served:
        await served.frames()
        knowledge.passages = [passage(1, "The new rule.")]
        stored(knowledge, tmp_path)
        path = f"/sources/{old.passage_id}"
        assert (await served.client.get(path, headers=JSON)).json()["text"] == "The new rule."
        assert (await served.client.get(f"{path}?v={old.sha256}", headers=JSON)).json()["text"] == "The old rule."
        assert marked(await served.client.get(f"{path}?v={old.sha256}&q=old")) == "old"
        knowledge.passages = []
        assert (await served.client.get(path)).status_code == 404
        assert (await served.client.get(f"{path}?v={old.sha256}")).status_code == 200


async def test_an_old_version_is_closed_to_a_client_that_was_never_shown_it(tmp_path: Path) -> None:
    home, knowledge = house(tmp_path, passage(1, "The old rule."))
    [old] = knowledge.passages
    path = f"/sources/{old.passage_id}"
    async with serving(home) as served:
        await home.ask(client="someone else")
        assert (await served.client.get(f"{path}?v={old.sha256}")).status_code == 200
        knowledge.passages = [passage(1, "The new rule.")]
        stored(knowledge, tmp_path)
        [new] = knowledge.passages
        foreign = await served.client.get(f"{path}?v={old.sha256}")
        unknown = await served.client.get(f"/sources/unknown?v={'0' * 64}")
        assert (foreign.status_code, foreign.content) == (404, unknown.content)
        assert (await served.client.get(f"{path}?v={new.sha256}", headers=JSON)).json()["text"] == "The new rule."


async def test_web_pages_and_what_has_left_the_index_are_open_to_those_who_were_shown_them(tmp_path: Path) -> None:
    strip = snapped(passage(9, "Read on the web.", kind="web", source="web"), Snapshots(tmp_path))
    web, knowledge = ScriptedWeb(WebFindings("", "ok", (Candidate(strip, 0.9),))), FixedKnowledge([passage(1)])
    home = House(services(tmp_path, knowledge=knowledge, web=web), ScriptedModel())
    [item] = knowledge.passages
    paths = [f"/sources/{shown.passage_id}?v={shown.sha256}" for shown in (item, strip)]
    async with serving(home) as served:
        await home.ask(client="someone else", web_search=True)
        knowledge.passages = []
        unknown = await served.client.get(f"/sources/unknown?v={'0' * 64}")
        for path in paths:
            foreign = await served.client.get(path)
            assert (foreign.status_code, foreign.content) == (404, unknown.content)
        knowledge.passages = [item]
        await served.frames(thread_id="t", web_search=True)
        knowledge.passages = []
        assert [(await served.client.get(path)).status_code for path in paths] == [200, 200]
        await served.client.delete("/threads/t")
        assert [(await served.client.get(path)).status_code for path in paths] == [404, 404]


async def test_a_source_opens_while_its_answer_is_still_being_written(tmp_path: Path) -> None:
    world, model, _ = stalling(tmp_path)
    async with serving(House(world, model)) as served, served.asking("stall in judging") as stream:
        frames = await stream.until(lambda frame: frame["type"] == "token")
        item = of(frames, "sources")[0]["items"][0]
        world.knowledge.passages.clear()  # type: ignore[attr-defined]
        answer = await served.client.get(f"/sources/{item['passage_id']}?v={item['sha256']}")
        assert answer.status_code == 200


async def test_what_is_unknown_is_404_in_the_same_words(tmp_path: Path) -> None:
    home, knowledge = house(tmp_path)
    first, second = knowledge.passages[:2]
    paths = [
        "unknown",
        "%2e%2e%5c%2e%2e",
        "a%00b",
        "x" * 4000,
        f"{first.passage_id}?v={second.sha256}",
        f"{first.passage_id}?v={'0' * 64}",
        f"{first.passage_id}?v=..%2F..%2Fetc%2Fpasswd",
        f"{first.passage_id}?v={first.sha256.upper()}",
    ]
    async with serving(home) as served:
        answers = [await served.client.get(f"/sources/{path}") for path in paths]
    assert {(answer.status_code, answer.json()["error"]["message"]) for answer in answers} == {
        (404, "There is no such source.")
    }


async def test_the_link_of_a_source_without_an_address_opens_its_snapshot_at_the_quote(tmp_path: Path) -> None:
    text = "A note: first this. Then “record 1” is kept? For how long, it says & says."
    home, _ = house(tmp_path, passage(1, text, kind="reference", source="notes"))
    async with serving(home) as served:
        frames = await served.frames()
        [item] = of(frames, "sources")[0]["items"]
        for cited in (item, *frames[-1]["citations"]):
            assert marked(await opened(served, cited["link"])) == cited["quote"]
        assert item["label"] == "REFERENCE"


async def opened(served: Served, link: str) -> httpx.Response:
    """Follow a link, which leads to the public address, on the server of the test."""
    parts = urlsplit(link)
    assert f"{parts.scheme}://{parts.netloc}" == "http://127.0.0.1:8000"
    return await served.client.get(f"{quote(parts.path)}?{parts.query}")
