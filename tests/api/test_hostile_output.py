"""Hostile text through the wire: the answer leaves byte for byte, its HTML is the allow-list, links are the store's."""

from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from service.model import Candidate, Kind
from service.ports import WebFindings
from tests.browser.hostile import ADDRESSES, ALL, ONE_LINE, TEXTS
from tests.citations.test_render import ALLOWED, ATTRIBUTES, seen
from tests.fakes import FixedKnowledge, ScriptedModel, ScriptedWeb, passage, services, snapped
from tests.running import PUBLIC, House
from tests.served import serving
from tests.wire import of


async def test_every_hostile_answer_leaves_as_it_was_written_beside_html_of_allowed_elements(tmp_path: Path) -> None:
    drafts = [f"{text} [[1]]" for text in (*TEXTS, ALL)]
    model = ScriptedModel(draft=lambda count, _: drafts[count], piece=1)
    async with serving(House(services(tmp_path), model)) as served:
        for draft in drafts:
            [done] = of(await served.frames("hostile", thread_id="t"), "done")
            assert done["answer"] == draft
            link = done["citations"][0]["link"]
            for tag, attributes in seen(done["html"]).tags:
                assert tag in ALLOWED
                assert set(attributes) <= ATTRIBUTES.get(tag, set())
                assert attributes.get("href") in (None, link)
        stored = (await served.client.get("/threads/t")).json()["items"]
    assert [turn["answer"] for turn in stored] == drafts


@pytest.mark.parametrize("kind", ["official", "reference", "web"])
async def test_whatever_the_address_a_link_is_of_this_server_or_of_the_web(tmp_path: Path, kind: Kind) -> None:
    items = [
        replace(passage(number, ALL, kind=kind), title=ONE_LINE, section=ONE_LINE, address=address)
        for number, address in enumerate(ADDRESSES, start=1)
    ]
    web = ScriptedWeb()
    world = services(tmp_path, knowledge=FixedKnowledge([] if kind == "web" else items), web=web)
    if kind == "web":
        web.findings = WebFindings("", "ok", tuple(Candidate(snapped(item, world.snapshots), 0.9) for item in items))
    async with serving(House(world, ScriptedModel())) as served:
        frames = await served.frames("hostile", web_search=True)
    sources = [item for frame in of(frames, "sources") for item in frame["items"]]
    assert sources
    for source in sources:
        assert source["title"] == ONE_LINE
        assert ALL.startswith(source["quote"][:40])
        for link in (source["url"], source["link"]):
            assert urlsplit(link).scheme in ("http", "https")
            assert link.startswith(f"{PUBLIC}/")
            assert not set(link) & set("<>\"' \n")
