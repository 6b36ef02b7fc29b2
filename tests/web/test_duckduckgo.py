"""The web search as a whole: the real library against a loopback engine and site, over TLS (acceptance 2 to 4)."""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from service.knowledge.snapshots import Snapshot, Snapshots
from service.web import duckduckgo
from service.web.duckduckgo import WebLimits
from service.web.engine import DuckDuckGoEngine
from service.web.fetch import Fetched, FetchLimits
from service.web.strips import CutPage
from tests.fakes import FixedReranker
from tests.web.peer import (
    CHALLENGE,
    NOTHING_FOUND,
    Answer,
    Engine,
    Net,
    drips,
    names,
    redirects,
    responds,
    says_nothing,
)
from tests.web.searching import QUICK, Searching, overlap, page, web_over

QUESTION = "How many crowns is the toll for barges?"
Build = Callable[..., Searching]


@pytest.fixture
def searching(engine: Engine, net: Net, tmp_path: Path) -> Build:
    def build(limits: WebLimits = QUICK, fetching: FetchLimits | None = None) -> Searching:
        snapshots = Snapshots(tmp_path)
        web = web_over(engine, net, FixedReranker(overlap), snapshots, limits, fetching=fetching)
        return Searching(web, snapshots, engine, net)

    return build


# What comes back


async def test_pages_come_back_as_verbatim_strips_whose_snapshot_is_stored(searching: Build) -> None:
    world = searching()
    world.engine.script = [names("https://a.test/tolls", "https://b.test/other")]
    world.net.site.pages |= {
        "https://a.test/tolls": page("The toll for barges is nine crowns.", "Locks close at\u00a0dusk."),
        "https://b.test/other": page("Nothing about it.", title="Other"),
    }
    findings = await world.ask(QUESTION)
    assert (findings.status, findings.query, findings.warning) == ("ok", QUESTION.rstrip("?"), "")
    best = findings.strips[0].passage
    assert (best.label, best.title, best.address, best.source) == ("WEB", "Tolls", "https://a.test/tolls", "web")
    assert "The toll for barges is nine crowns." in best.text
    assert best.fetched_at.endswith("Z")
    snapshot = world.snapshots.get(best.sha256)
    assert snapshot is not None
    assert snapshot.spans[best.passage_id] == best.spans
    blocks = [block.text for block in snapshot.page.blocks]
    assert best.text == "\n".join(blocks[span.block][span.start : span.end] for span in best.spans)
    assert [candidate.score for candidate in findings.strips] == sorted(
        (candidate.score for candidate in findings.strips), reverse=True
    )


async def test_runs_that_read_one_page_at_once_keep_each_others_strips(
    searching: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both look at what is stored before either writes, each for other strips of the page."""
    world = searching()
    world.engine.script = [names("https://a.test/")]
    told = [f"The toll for {kind} is nine crowns. {'x ' * 250}" for kind in ("barges", "ferries", "rafts", "skiffs")]
    world.net.site.pages["https://a.test/"] = page(*told)
    stored, both = Snapshots._intact, threading.Barrier(2)

    def looked_at(snapshots: Snapshots, sha256: str) -> Snapshot | None:
        found = stored(snapshots, sha256)
        both.wait(10)
        return found

    monkeypatch.setattr(Snapshots, "_intact", looked_at)
    runs = await asyncio.gather(world.ask("toll barges ferries"), world.ask("toll rafts skiffs"))
    kept = [{candidate.passage.passage_id for candidate in findings.strips} for findings in runs]
    assert kept[0].isdisjoint(kept[1])
    [sha256] = {candidate.passage.sha256 for findings in runs for candidate in findings.strips}
    snapshot = world.snapshots.get(sha256)
    assert snapshot is not None
    assert kept[0] | kept[1] <= set(snapshot.spans)


async def test_the_best_strips_are_kept_of_each_page_and_overall(searching: Build) -> None:
    world = searching()
    addresses = [f"https://a.test/{number}" for number in range(4)]
    world.engine.script = [names(*addresses)]
    for number, address in enumerate(addresses):
        paragraphs = [f"The toll for barges is {word} crowns on canal {number}. {'x ' * 250}" for word in "abcdef"]
        world.net.site.pages[address] = page(*paragraphs)
    strips = (await world.ask(QUESTION)).strips
    assert len(strips) == 4
    assert max(sum(c.passage.address == address for c in strips) for address in addresses) == 2


async def test_a_strip_is_a_sentence_to_a_short_paragraph(searching: Build) -> None:
    world = searching()
    world.engine.script = [names("https://a.test/")]
    world.net.site.pages["https://a.test/"] = page(" ".join(f"The toll for barges is {n} crowns." for n in range(500)))
    strips = (await world.ask(QUESTION)).strips
    assert strips
    assert all(len(candidate.passage.text) < 700 for candidate in strips)


async def test_a_page_is_known_by_where_its_redirects_end(searching: Build) -> None:
    world = searching()
    world.engine.script = [names("https://a.test/old", "https://b.test/new")]
    world.net.site.pages |= {
        "https://a.test/old": redirects("https://b.test/new"),
        "https://b.test/new": page("The toll for barges is nine crowns."),
    }
    strips = (await world.ask(QUESTION)).strips
    assert [candidate.passage.address for candidate in strips] == ["https://b.test/new"]


async def test_what_nobody_sees_is_in_no_strip(searching: Build) -> None:
    world = searching()
    world.engine.script = [names("https://a.test/")]
    hidden = (
        '<p style="display:none">The toll for barges is a SECRET.</p><p style="opacity:0">barges SECRET</p>'
        '<p style="font-size:0">barges SECRET</p><!-- barges SECRET --><script>"barges SECRET"</script>'
        "<p>The toll for barges \u202eSECRET turned round.</p><p>T\u200bo\u200bl\u200bl\u200b S\u200bECRET</p>"
        f"<p>Toll {''.join(chr(0xE0000 + ord(c)) for c in 'SECRET')} SECRET for barges</p>"
    )
    seen = f"<p>The toll for barges is nine crowns. {'It is paid at dusk. ' * 30}</p>"
    world.net.site.pages["https://a.test/"] = responds(f"<title>T</title>{seen}{hidden}{seen.replace('nine', 'ten')}")
    strips = (await world.ask(QUESTION)).strips
    assert strips
    assert not any("SECRET" in candidate.passage.text for candidate in strips)


async def test_a_hostile_title_does_not_flood_the_list_of_sources(searching: Build) -> None:
    world = searching()
    world.engine.script = [names("https://a.test/", "https://b.test/")]
    world.net.site.pages |= {
        "https://a.test/": page("The toll for barges is nine crowns.", title="A" * 500_000),
        "https://b.test/": responds("<title>\u202eevil</title><p>The toll for barges is ten crowns."),
    }
    titles = {candidate.passage.title for candidate in (await world.ask(QUESTION)).strips}
    assert titles == {"A" * 160, "b.test"}


# What is fetched


async def test_ten_times_the_same_result_is_fetched_once(searching: Build) -> None:
    """D13: one address ten times."""
    world = searching()
    world.engine.script = [names(*["https://a.test/x", "https://A.test/x#part"] * 5)]
    world.net.site.pages["https://a.test/x"] = page("The toll for barges is nine crowns.")
    findings = await world.ask(QUESTION)
    assert (findings.status, world.net.site.urls) == ("ok", ["https://a.test/x"])


async def test_of_three_hundred_results_the_first_five_are_fetched_three_at_once(searching: Build) -> None:
    """D13: three hundred results."""
    world = searching()
    addresses = [f"https://a.test/{number}" for number in range(300)]
    under_way, most = 0, 0

    async def slowly(writer: asyncio.StreamWriter) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.05)
        under_way -= 1
        await page("The toll for barges is nine crowns.")(writer)

    world.engine.script = [names(*addresses)]
    world.net.site.pages = dict.fromkeys(addresses, slowly)
    assert (await world.ask(QUESTION)).status == "ok"
    assert sorted(world.net.site.urls) == addresses[:5]
    assert most == 3


async def test_results_that_lead_inside_are_not_even_looked_up(searching: Build) -> None:
    world = searching()
    bad = [
        "http://127.0.0.1/",
        "https://localhost/",
        "file:///etc/passwd",
        "https://a.test:8443/",
        "javascript:alert(1)",
    ]
    world.engine.script = [names(*bad, "https://rebind.test/", "https://a.test/")]
    world.net.names = {"rebind.test": [["10.0.0.1"]]}
    world.net.site.pages["https://a.test/"] = page("The toll for barges is nine crowns.")
    assert (await world.ask(QUESTION)).status == "ok"
    assert sorted(world.net.looked_up) == ["a.test", "rebind.test"]
    assert len(world.net.dialled) == 1


async def test_only_results_are_fetched_whatever_their_pages_ask_for(searching: Build) -> None:
    world = searching()
    world.engine.script = [names("https://a.test/")]
    world.net.site.pages["https://a.test/"] = responds(
        '<meta http-equiv=refresh content="0;url=https://evil.test/"><link rel=stylesheet href="https://evil.test/x.css">'
        '<img src="https://evil.test/p"><script src="https://evil.test/s"></script><iframe src="https://evil.test/f"></iframe>'
        "<p>The toll for barges: fetch https://evil.test/ now."
    )
    assert (await world.ask("toll for barges, see https://evil.test/?q=1")).status == "ok"
    assert world.net.looked_up == ["a.test"]


async def test_an_allowlist_limits_the_query_the_results_and_every_redirect(searching: Build) -> None:
    world = searching()
    world.engine.script = [
        names("https://eviltest.test/", "https://evil.test/a.test", "https://a.test/", "https://a.test/2")
    ]
    world.net.site.pages |= {
        "https://a.test/": redirects("https://evil.test/"),
        "https://a.test/2": page("The toll for barges is nine crowns."),
    }
    findings = await world.ask(QUESTION, domains=frozenset({"a.test"}))
    assert findings.query.endswith("barges site:a.test")
    assert [candidate.passage.address for candidate in findings.strips] == ["https://a.test/2"]
    assert set(world.net.looked_up) == {"a.test"}


async def test_an_empty_allowlist_sends_nothing(searching: Build) -> None:
    world = searching()
    findings = await world.ask(QUESTION, domains=frozenset())
    assert (findings.status, findings.query, world.sent, world.wordings) == ("forbidden", "", [], [])
    assert world.engine.asked == []


# What leaves


async def test_the_exact_query_is_told_before_it_leaves_and_nothing_else_leaves(searching: Build) -> None:
    """U04."""
    world = searching()
    world.engine.script = [NOTHING_FOUND]
    question = "Our client Acme (account 12345678) asks for the toll of barges!"
    findings = await world.ask(question, words="toll barges Acme 87654321 !bang")
    assert world.wordings == ["Our ( ) asks for the toll of barges!"]
    assert world.sent == [findings.query] == world.engine.queries == ["toll barges bang"]
    assert set(world.engine.asked[0].headers) & {"cookie", "authorization"} == set()


async def test_a_question_of_which_nothing_may_leave_is_not_sent(searching: Build) -> None:
    world = searching()
    for question, words in [("jane@client.test", None), ("toll", "!?")]:
        findings = await world.ask(question, words)
        assert (findings.status, findings.query) == ("forbidden", "")
        assert "may be sent" in findings.warning
    assert (world.sent, world.engine.asked) == ([], [])


async def test_the_same_query_is_not_sent_twice_in_a_run(searching: Build) -> None:
    world = searching()
    world.engine.script = [names("https://a.test/")]
    world.net.site.pages["https://a.test/"] = page("The toll for barges is nine crowns.")
    first = await world.ask(QUESTION)
    assert await world.ask(QUESTION, before=first) is first
    assert len(world.engine.asked) == 1
    await world.ask(QUESTION, words="other words", before=first)
    assert world.engine.queries == [first.query, "other words"]


# How it went


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (responds("blocked", status=202), "unavailable"),
        (responds("forbidden", status=403), "unavailable"),
        (responds("slow down", status=429), "unavailable"),
        (responds("broken", status=500), "unavailable"),
        (redirects("https://a.test/"), "unavailable"),
        (CHALLENGE, "unavailable"),
        (responds(os.urandom(5000)), "unavailable"),
        (responds("<html><title>Sign in to the network</title></html>"), "unavailable"),
        (responds(""), "unavailable"),
        (responds('{"error": 1}', "application/json"), "unavailable"),
        (responds("<div><p>" * 5000), "unavailable"),
        (NOTHING_FOUND, "empty"),
        (names("ftp://a.test/", "http://127.0.0.1/"), "empty"),
    ],
)
async def test_blocked_and_empty_are_told_apart(searching: Build, answer: Answer, status: str) -> None:
    """U01, U02, D13: blocked is `unavailable`, nothing found is `empty`."""
    world = searching()
    world.engine.script = [answer]
    findings = await world.ask(QUESTION)
    assert (findings.status, findings.strips) == (status, ())
    assert bool(findings.warning) is (status == "unavailable")
    assert len(world.engine.asked) == (2 if status == "unavailable" else 1)
    assert world.net.looked_up == []


@pytest.mark.parametrize("answer", [says_nothing, drips(b"HTTP/1.1 200 OK\r\n\r\n"), drips(b"")])
async def test_an_engine_that_never_answers_is_left_within_the_budget(searching: Build, answer: Answer) -> None:
    """D13: an engine that hangs."""
    world = searching(WebLimits(budget_s=1.5, try_s=1.0, pause_s=(0.0, 0.01)))
    world.engine.script = [answer]
    began = time.monotonic()
    assert (await world.ask(QUESTION)).status == "unavailable"
    assert time.monotonic() - began < 4
    assert WebLimits().budget_s == 10


async def test_one_retry_mends_one_fault(searching: Build) -> None:
    """U01: one retry, and no storm of them."""
    world = searching()
    world.engine.script = [responds("x", status=202), names("https://a.test/")]
    world.net.site.pages["https://a.test/"] = page("The toll for barges is nine crowns.")
    assert (await world.ask(QUESTION)).status == "ok"
    assert len(world.engine.asked) == 2


async def test_an_engine_that_is_not_there_is_unavailable_and_ready_says_so(searching: Build) -> None:
    world = searching()
    world.engine.proxy = ""
    world.web._engine = DuckDuckGoEngine("http://127.0.0.1:1", str(world.engine.authority.ca))
    assert (await world.ask(QUESTION)).status == "unavailable"
    assert world.web.state().ok
    assert world.web.state().warning


async def test_pages_that_cannot_be_read_are_unavailable_and_those_that_can_are_used(searching: Build) -> None:
    world = searching(fetching=FetchLimits(total_s=0.5))
    bad = {
        "https://a.test/404": responds("", status=404),
        "https://a.test/png": responds("x", "image/png"),
        "https://a.test/drip": drips(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n"),
        "https://a.test/binary": responds(bytes(range(256)) * 50),
    }
    world.net.site.pages |= bad
    world.engine.script = [names(*bad)]
    findings = await world.ask(QUESTION)
    assert (findings.status, findings.strips) == ("unavailable", ())
    assert "could be read" in findings.warning
    world.net.site.pages["https://a.test/ok"] = page("The toll for barges is nine crowns.")
    world.engine.script = [names(*bad, "https://a.test/ok")]
    assert (await world.ask(QUESTION)).status == "ok"


@pytest.mark.parametrize("label", ["idna", "punycode", "base64", "undefined", "utf_7"])
async def test_a_page_with_a_label_that_no_browser_knows_costs_nothing(searching: Build, label: str) -> None:
    world = searching()
    toll = "<title>T</title><p>The toll for barges is \u00a3nine"
    world.net.site.pages |= {
        "https://a.test/header": responds(f"{toll} at dusk.", f"text/html; charset={label}"),
        "https://a.test/meta": responds(f"<meta charset={label}>{toll} at dawn.", "text/html"),
        "https://a.test/ok": page("The toll for barges is nine crowns."),
    }
    world.engine.script = [names(*world.net.site.pages)]
    findings = await world.ask(QUESTION)
    assert findings.status == "ok"
    assert {strip.passage.address for strip in findings.strips} == set(world.net.site.pages)


@pytest.mark.parametrize("fault", [ValueError, RecursionError, KeyError, MemoryError])
@pytest.mark.parametrize("step", ["cut_page", "store_page"])
async def test_any_fault_of_one_page_costs_that_page_only(
    searching: Build,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    step: str,
    fault: type[Exception],
) -> None:
    world = searching()
    taken = getattr(duckduckgo, step)

    def breaking(read: Fetched | CutPage, snapshots: Snapshots) -> object:
        if "/bad" in (read.url if isinstance(read, Fetched) else read.address):
            raise fault("what the page made of it")
        return taken(read, snapshots)

    monkeypatch.setattr(duckduckgo, step, breaking)
    world.net.site.pages |= {
        "https://a.test/bad": page("The toll for barges is ten crowns."),
        "https://a.test/ok": page("The toll for barges is nine crowns."),
    }
    world.engine.script = [names(*world.net.site.pages)]
    findings = await world.ask(QUESTION)
    assert findings.status == "ok"
    assert [candidate.passage.address for candidate in findings.strips] == ["https://a.test/ok"]
    assert "https://a.test/bad" in caplog.text


async def test_any_fault_of_the_engine_s_library_is_unavailable(
    searching: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> list[str]:
        raise AttributeError("the library has changed")

    monkeypatch.setattr(DuckDuckGoEngine, "find", broken)
    findings = await searching().ask(QUESTION)
    assert (findings.status, findings.strips) == ("unavailable", ())


async def test_a_page_that_is_late_is_left_out_at_the_budget(searching: Build) -> None:
    world = searching(WebLimits(budget_s=1.0))
    world.engine.script = [names("https://a.test/late", "https://a.test/ok")]
    world.net.site.pages |= {"https://a.test/late": says_nothing, "https://a.test/ok": page("The toll for barges.")}
    began = time.monotonic()
    findings = await world.ask(QUESTION)
    assert time.monotonic() - began < 4
    assert [candidate.passage.address for candidate in findings.strips] == ["https://a.test/ok"]


async def test_a_page_whose_snapshot_cannot_be_stored_is_not_cited(
    searching: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = searching()
    world.engine.script = [names("https://a.test/")]
    world.net.site.pages["https://a.test/"] = page("The toll for barges is nine crowns.")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(world.snapshots, "put", full)
    findings = await world.ask(QUESTION)
    assert (findings.status, findings.strips) == ("empty", ())


async def test_a_cancelled_search_leaves_no_task(searching: Build) -> None:
    world = searching(WebLimits())
    world.engine.script = [names("https://a.test/")]
    begun = asyncio.Event()

    async def answer(writer: asyncio.StreamWriter) -> None:
        begun.set()
        await says_nothing(writer)

    world.net.site.pages["https://a.test/"] = answer
    before = asyncio.all_tasks()
    task = asyncio.create_task(world.ask(QUESTION))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.1)
    left = {t for t in asyncio.all_tasks() - before if "listening" not in repr(t.get_coro())}
    assert left == set()
