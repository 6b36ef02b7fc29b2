"""A conversation as a Markdown file: whole, equal to what was answered, and safe to open with any program."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.api.guarded import ALICE, BOB, bearer, guarded
from tests.fakes import FAIL, FixedKnowledge, ScriptedModel, passage, services
from tests.running import House
from tests.served import serving
from tests.skills.writing import skills
from tests.wire import Frame, of

ANY_PROGRAM = MarkdownIt("commonmark").enable("table")
ANSWER = "Keep it [[1]].\n\n- **Five** years [[2]][[1]].\n\n`[[1]]` in code; Smith [2019] EWCA Civ 1.\n"
EVIL = "Rule ![x](https://evil.test/?q=1) <img src=x>\n# Forged\n[a](https://evil.test) www.evil.test | *b*"


def answer_in(exported: str, number: int) -> str:
    """The answer as the file quotes it, with the numbers as the wire writes them."""
    section = exported.partition(f"\n### Answer {number}\n")[2].partition("\n#")[0]
    lines = [line for line in section.split("\n") if line.startswith(">")]
    return re.sub(r"\[\^(\d+)\]", r"[[\1]]", "\n".join(line[2:] for line in lines))


async def test_the_file_holds_each_answer_as_it_was_given_and_each_source_with_its_hash(tmp_path: Path) -> None:
    model = ScriptedModel(draft=lambda _, __: ANSWER)
    async with serving(House(services(tmp_path), model)) as served:
        frames = await served.frames("First *question*?\nSecond line", thread_id="t")
        frames += await served.frames("And then?", thread_id="t")
        got = await served.client.get("/threads/t/export")
        thread = (await served.client.get("/threads/t")).json()
    assert got.headers["content-type"] == "text/markdown; charset=utf-8"
    assert got.headers["content-disposition"] == 'attachment; filename="gatehouse-first-question-second-line.md"'
    assert got.headers["cache-control"] == "no-store"
    for number, done in enumerate(of(frames, "done"), start=1):
        assert answer_in(got.text, number) == done["answer"] == ANSWER
        assert f"- Run: {done['run_id'].replace('_', chr(92) + '_')}\n" in got.text
    assert "> First \\*question\\*?\\\n> Second line\n" in got.text
    assert "- Status: answered, after 1 attempt(s)\n- Gate documents: pass" in got.text
    sources = thread["sources"]
    assert [int(n) for n in re.findall(r"^### Source (\d+)$", got.text, re.MULTILINE)] == [s["n"] for s in sources]
    for source in sources:
        assert_source_is_in(got.text, source)


def assert_source_is_in(exported: str, source: Frame) -> None:
    section = exported.partition(f"\n### Source {source['n']}\n")[2].partition("\n### ")[0]
    for fact in (f"Label: {source['label']}", f"Title: {source['title']}", f"Section: {source['section']}"):
        assert f"- {fact}\n" in section
    assert f"- Address: <{source['url']}>\n- Opens at: <{source['link']}>\n- Read: {source['fetched_at']}\n" in section
    assert f"- SHA-256 of the page as read: {source['sha256']}\n" in section
    assert f"\n> {source['quote']}\n" in section
    assert ("Cited in answer 1, 2" in section) == (source["n"] in (1, 2))
    assert f"\n[^{source['n']}]: \\[{source['label']}\\] {source['title']}, {source['section']}. <" in exported


async def test_one_answer_is_exported_with_the_sources_that_it_cites(tmp_path: Path) -> None:
    model = ScriptedModel(draft=lambda count, sources: f"Number {count} [[{sources[count].n}]].")
    async with serving(House(services(tmp_path), model)) as served:
        await served.frames("first", thread_id="t")
        [done] = of(await served.frames("second", thread_id="t"), "done")
        got = (await served.client.get("/threads/t/export", params={"run_id": done["run_id"]})).text
    assert answer_in(got, 2) == done["answer"]
    assert "## Question 1" not in got
    assert re.findall(r"^### Source (\d+)$", got, re.MULTILINE) == ["2"]
    assert "\n[^2] supported, support 0.80: <" in got


async def test_a_doubtful_answer_carries_its_warning_and_the_verdict_into_the_file(tmp_path: Path) -> None:
    async with serving(House(services(tmp_path), ScriptedModel(grounded=lambda _: FAIL))) as served:
        [done] = of(await served.frames(thread_id="t"), "done")
        got = (await served.client.get("/threads/t/export")).text
    assert done["status"] == "partial"
    assert f"**Warning:** {done['warning']}\n" in got
    assert "- Status: partial, after 2 attempt(s)\n" in got
    assert "- Gate grounded: fail, not\\_grounded\n" in got


async def test_a_refusal_has_no_sources_section_in_an_export_of_its_own(tmp_path: Path) -> None:
    async with serving(House(services(tmp_path), ScriptedModel(draft=lambda _, __: "[[abstain]] No."))) as served:
        [done] = of(await served.frames(thread_id="t"), "done")
        got = (await served.client.get("/threads/t/export", params={"run_id": done["run_id"]})).text
    assert (done["status"], answer_in(got, 1)) == ("refused", done["answer"])
    assert "## Sources" not in got
    assert "[^1]:" not in got


async def test_nothing_that_was_asked_read_or_written_forges_a_heading_a_link_or_an_image(tmp_path: Path) -> None:
    item = replace(passage(1, EVIL), title=EVIL, section=EVIL, address=f'a"><b>{EVIL}')
    world = services(tmp_path, knowledge=FixedKnowledge([item]))
    model = ScriptedModel(draft=lambda _, sources: f"{EVIL} [[{sources[0].n}]](https://evil.test)")
    async with serving(House(world, model)) as served:
        await served.frames(EVIL, thread_id="t")
        await served.client.patch("/threads/t", json={"title": EVIL.replace("\n", " ")})
        got = await served.client.get("/threads/t/export")
        sources = (await served.client.get("/threads/t")).json()["sources"]
    assert re.fullmatch(r'attachment; filename="[a-z0-9-]+\.md"', got.headers["content-disposition"])
    blocks = ANY_PROGRAM.parse(got.text)
    tokens = [*blocks, *(child for block in blocks for child in block.children or ())]
    assert not [token for token in tokens if token.type in ("image", "html_inline", "html_block")]
    allowed = {link for source in sources for link in (source["url"], source["link"])}
    links = {str(token.attrs["href"]) for token in tokens if token.type == "link_open"}
    assert all(link.startswith("http://127.0.0.1:8000/") for link in links)
    assert len(links) <= len(allowed) + 1
    tops = [after.content for token, after in pairwise(blocks) if token.type == "heading_open" and not token.level]
    assert [
        top for top in tops[1:] if not re.fullmatch(r"(Question|Answer|Citations of answer|Source|Sources)( \d+)?", top)
    ] == []
    assert tops.count("Sources") == 1


async def test_the_file_of_another_client_or_skill_and_of_no_thread_look_alike(tmp_path: Path) -> None:
    async with guarded(tmp_path, skills=skills("short")) as served:
        alice = bearer(ALICE)
        async with served.asking(headers=alice, thread_id="t", skill="short") as stream:
            frames = [frame async for frame in stream.frames]
        run_id = frames[0]["run_id"]
        assert (await served.client.get("/threads/t/export?skill=short", headers=alice)).status_code == 200
        unknown = await served.client.get("/threads/unknown/export?skill=short", headers=bearer(BOB))
        for path in ("/threads/t/export", "/threads/a.b/export", "/threads/t/export?skill=other"):
            assert (await served.client.get(path, headers=alice)).content == unknown.content
        for path in ("/threads/t/export?skill=short", f"/threads/t/export?skill=short&run_id={run_id}"):
            foreign = await served.client.get(path, headers=bearer(BOB))
            assert (foreign.status_code, foreign.content) == (404, unknown.content)
        missing = await served.client.get("/threads/t/export?skill=short&run_id=r_other", headers=alice)
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "not_found")
        assert (await served.client.get("/threads/t/export?skill=short")).status_code == 401


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("../../etc/passwd", "gatehouse-etc-passwd.md"),
        ('a"; filename="x.exe', "gatehouse-a-filename-x-exe.md"),
        ("\u202e\u4e00 \u00fc?", "gatehouse.md"),
        ("x" * 200, f"gatehouse-{'x' * 50}.md"),
    ],
)
async def test_the_name_of_the_file_is_safe_whatever_the_title(tmp_path: Path, title: str, name: str) -> None:
    async with serving(House(services(tmp_path), ScriptedModel())) as served:
        await served.frames(thread_id="t")
        assert (await served.client.patch("/threads/t", json={"title": title})).status_code == 200
        got = await served.client.get("/threads/t/export")
    assert got.headers["content-disposition"] == f'attachment; filename="{name}"'
