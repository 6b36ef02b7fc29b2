"""The whole product with the web (acceptance 2): a real store, the Claude adapter, ddgs and the fetch over TLS."""

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from service.cli import ingest_into
from service.graph.run import Request
from service.knowledge.snapshots import Snapshots
from service.ports import Reranker, WebSearch
from service.settings import Settings
from service.threads import ThreadRef
from service.wiring import Gatehouse, open_gatehouse
from tests.messages_server import Asked, Behaviour, MessagesServer, running_messages_server, says, says_json
from tests.web.authority import make_authority
from tests.web.peer import Engine, Net, names, running_engine, running_site
from tests.web.searching import page, web_over
from tests.wire import Frame, assert_grammar, of

pytestmark = pytest.mark.slow

RULES = """<!doctype html><title>Records</title><main><h1>Records</h1>
<p>REC 1.1 A firm must keep each record of advice for six years after the advice was given.</p></main>"""
QUESTION = "How long must our client Bluebird Ltd keep each record of advice?"
ON_THE_WEB = "The regulator said in 2031 that a record of advice may be kept on paper."
SOURCE = re.compile(r"\[\[(\d+)\]\] \[(?:VECTOR|WEB)\]\n<data \w+>\n[^\n]*\n([^\n]+)")


def writes(asked: Asked) -> Behaviour:
    """Passes every gate, words a query with the client's name in it, and quotes every source it is given."""
    properties = (asked.schema or {}).get("properties", {})
    if "relevant" in properties:
        return says_json({"relevant": "yes", "reason": "r"})
    if "supported" in properties:
        return says_json({"supported": "yes", "problem": ""})
    if "answers" in properties:
        return says_json({"answers": "yes", "problem": ""})
    if "search engine" in asked.system:
        return says("Bluebird record of advice retention")
    return says(" ".join(f"One says “{text}” [[{n}]]." for n, text in SOURCE.findall(asked.text)))


@pytest.fixture
async def model() -> AsyncIterator[MessagesServer]:
    async with running_messages_server() as server:
        server.respond = writes
        yield server


@pytest.fixture
async def peers(tmp_path: Path) -> AsyncIterator[tuple[Engine, Net]]:
    folder = tmp_path / "authority"
    folder.mkdir()
    authority = make_authority(folder)
    async with running_engine(authority) as engine, running_site(authority) as site:
        yield engine, Net(site)


async def asked(house: Gatehouse, thread: str, web_search: bool) -> list[Frame]:
    run = house.runs.start(Request(ThreadRef("alice", thread), QUESTION, web_search))
    return [house.api.presenter.frame(told, run.run_id).model_dump(mode="json") async for told in run.events()]


async def test_web_strips_stand_beside_the_vector_sources_in_the_whole_product(
    tmp_path: Path, model: MessagesServer, peers: tuple[Engine, Net], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, net = peers
    engine.script = [names("https://news.test/records", "https://rules.test/down")]
    net.site.pages["https://news.test/records"] = page(ON_THE_WEB, title="News")

    def open_web(_: Settings, reranker: Reranker, snapshots: Snapshots, __: AsyncExitStack) -> WebSearch:
        return web_over(engine, net, reranker, snapshots)

    monkeypatch.setattr("service.wiring.open_web", open_web)
    given = {"DATA_DIR": tmp_path / "data", "RERANKER_MODEL": "keep-order", "TORCH_THREADS": 1}
    settings = Settings.model_validate({**given, "ANTHROPIC_BASE_URL": model.url, "MODEL_PROVIDER": "claude"})
    (tmp_path / "records.html").write_text(RULES)
    async with open_gatehouse(settings, lambda _: None) as house:
        await ingest_into(house.store, [str(tmp_path / "records.html")], "rules", "official", "https://rules.test/")
        without = await asked(house, "a", web_search=False)
        beside = await asked(house, "b", web_search=True)
        turn = (await house.history.state(ThreadRef("alice", "b")))["turns"][-1]
    assert_grammar(beside)
    told, before = of(beside, "sources")[0], of(without, "sources")[0]
    assert [item for item in told["items"] if item["label"] == "VECTOR"] == before["items"]
    (web,) = [item for item in told["items"] if item["label"] == "WEB"]
    assert web["link"].startswith("https://news.test/records#:~:text=")
    assert beside[-1]["status"] == "answered"
    cited = {citation["n"]: citation["status"] for citation in beside[-1]["citations"]}
    assert cited == {item["n"]: "verified" for item in told["items"]}
    assert told["web"] == {"query": "record of advice retention", "status": "ok"}
    assert engine.queries == turn["web"]["sent"] == ["record of advice retention"]
    (wording,) = [asked.text for asked in model.asked if "search engine" in asked.system]
    assert "Bluebird" not in wording
