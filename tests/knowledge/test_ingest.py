import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from service.errors import IngestError
from service.knowledge.documents import MAX_BYTES
from service.knowledge.ingest import Ingestor, IngestReport
from service.knowledge.snapshots import Snapshots
from service.knowledge.sources import SourceRegistry
from tests.knowledge.fake_store import MemoryKnowledge, as_port

BASE = "https://rules.test/book/"


class Bench:
    """An ingestor over a dictionary, a folder of snapshots and a folder of documents."""

    def __init__(self, folder: Path) -> None:
        self.knowledge = MemoryKnowledge()
        self.snapshots = Snapshots(folder / "data" / "snapshots")
        self.registry = SourceRegistry(folder / "data" / "sources.json")
        self.documents = folder / "documents"
        self.documents.mkdir()
        self.answers: dict[str, httpx.Response] = {}
        self.asked: list[httpx.Request] = []

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.documents / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        if str(request.url) not in self.answers:
            raise httpx.ConnectError("refused")
        return self.answers[str(request.url)]

    async def ingest(
        self,
        *names: str | Path,
        source: str = "rules",
        base_url: str = "",
        prune: bool = False,
        dry_run: bool = False,
    ) -> IngestReport:
        ingestor = Ingestor(
            as_port(self.knowledge),
            self.snapshots,
            self.registry,
            count_tokens=lambda text: len(text.split()),
            max_tokens=60,
            transport=httpx.MockTransport(self._answer),
        )
        paths = [str(name) for name in names or (self.documents,)]
        return await ingestor.ingest(
            paths, source=source, kind="official", base_url=base_url, prune=prune, dry_run=dry_run
        )

    def stored(self) -> set[str]:
        return {address for _, address in self.knowledge.held}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def test_a_folder_is_walked_and_addresses_are_relative_to_it(bench: Bench) -> None:
    bench.write("cm/a.html", "<p>1.1 Pay it.</p>")
    bench.write("notes b.md", "# N\n\nText.")
    bench.write("c.txt", "Plain.")
    bench.write("style.css", "p{}")
    bench.write(".hidden.md", "x")
    bench.write(".git/d.md", "x")
    report = await bench.ingest()
    assert report.added == ["c.txt", "cm/a.html", "notes%20b.md"]
    assert (report.failed, report.passages) == ([], 3)
    assert bench.stored() == set(report.added)
    assert "3 added" in report.summary()


async def test_links_that_leave_the_folder_are_not_followed(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "outside.md").write_text("Secret.")
    (bench.documents / "link.md").symlink_to(tmp_path / "outside.md")
    (bench.documents / "up").symlink_to(tmp_path)
    bench.write("in.md", "Text.")
    (bench.documents / "same.md").symlink_to(bench.documents / "in.md")
    (bench.documents / "broken.md").symlink_to(bench.documents / "none.md")
    (bench.documents / "itself.md").symlink_to(bench.documents / "itself.md")
    assert (await bench.ingest()).added == ["in.md", "same.md"]


async def test_ingesting_twice_changes_nothing(bench: Bench) -> None:
    """U19."""
    bench.write("a.html", "<p>Pay it.</p>")
    await bench.ingest()
    held, calls = dict(bench.knowledge.held), len(bench.knowledge.calls)
    report = await bench.ingest()
    assert (report.unchanged, report.added, report.passages) == (["a.html"], [], 0)
    assert (bench.knowledge.held, len(bench.knowledge.calls)) == (held, calls)


async def test_a_changed_document_is_replaced_and_loses_its_tail(bench: Bench) -> None:
    bench.write("a.html", "<p>1.1 Pay it.</p><p>1.2 Tell him.</p>")
    await bench.ingest()
    old = bench.knowledge.held["rules", "a.html"]
    bench.write("a.html", "<p>1.1 Pay it.</p>")
    report = await bench.ingest()
    new = bench.knowledge.held["rules", "a.html"]
    assert report.changed == ["a.html"]
    assert [passage.text for passage in new] == ["1.1 Pay it."]
    assert new[0].passage_id == old[0].passage_id
    assert bench.snapshots.has(old[0].sha256)
    assert bench.snapshots.has(new[0].sha256)


async def test_every_passage_names_its_snapshot_its_time_and_its_spans(bench: Bench) -> None:
    bench.write("a.html", "<title>T</title><p>1.1 Pay it.</p>")
    await bench.ingest()
    (passage,) = bench.knowledge.held["rules", "a.html"]
    snapshot = bench.snapshots.get(passage.sha256)
    assert snapshot is not None
    assert snapshot.spans[passage.passage_id] == passage.spans
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", passage.fetched_at)
    assert snapshot.fetched_at == passage.fetched_at


async def test_one_bad_document_does_not_stop_the_others(bench: Bench) -> None:
    bench.write("a.html", b"\x89PNG\x00\x00\x00\x01\x02")
    bench.write("b.html", "<nav>Home</nav>")
    bench.write("c.md", "---\ntitle: [\n---\ntext")
    bench.write("d.html", b"<p>x" + b" " * MAX_BYTES)
    bench.write("e.html", "<p>Good.</p>")
    report = await bench.ingest(bench.documents, bench.documents / "none.html")
    assert report.added == ["e.html"]
    reasons = {Path(name).name: reason for name, reason in report.failed}
    assert reasons.keys() == {"a.html", "b.html", "c.md", "d.html", "none.html"}
    assert "no text" in reasons["b.html"]
    assert reasons["none.html"] == "no such file or folder"


async def test_a_file_of_a_kind_without_a_reader_is_reported_when_it_is_named(bench: Bench) -> None:
    report = await bench.ingest(bench.write("a.pdf", "%PDF"))
    assert "no reader for '.pdf'" in report.failed[0][1]


async def test_a_bug_in_one_document_is_logged_and_reported(
    bench: Bench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("service.knowledge.ingest.chunk_page", broken)
    bench.write("a.html", "<p>x")
    report = await bench.ingest()
    assert "RuntimeError" in report.failed[0][1]
    assert "secret" not in report.failed[0][1]
    assert "secret detail" in caplog.text


async def test_a_failed_replace_keeps_the_old_version_and_the_next_run_makes_it_good(bench: Bench) -> None:
    bench.write("a.html", "<p>Old.</p>")
    await bench.ingest()
    bench.write("a.html", "<p>New.</p>")
    bench.knowledge.fails_for = {"a.html"}
    report = await bench.ingest()
    assert [reason for _, reason in report.failed] == ["Milvus does not answer"]
    assert bench.knowledge.held["rules", "a.html"][0].text == "Old."
    bench.knowledge.fails_for = set()
    assert (await bench.ingest()).changed == ["a.html"]


async def test_the_snapshot_is_written_before_the_index_is_touched(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    bench.write("a.html", "<p>x</p>")
    monkeypatch.setattr(bench.snapshots, "put", full)
    report = await bench.ingest()
    assert report.failed[0][1] == "no space left on device"
    assert bench.knowledge.calls == []


async def test_a_lost_snapshot_is_written_again_without_indexing(bench: Bench) -> None:
    bench.write("a.html", "<p>x</p>")
    await bench.ingest()
    (passage,) = bench.knowledge.held["rules", "a.html"]
    (bench.snapshots.directory / passage.sha256).unlink()
    report = await bench.ingest()
    assert (report.unchanged, len(bench.knowledge.calls)) == (["a.html"], 1)
    assert bench.snapshots.has(passage.sha256)


async def test_prune_removes_what_was_not_named_and_nothing_else(bench: Bench) -> None:
    bench.write("a.html", "<p>x</p>")
    gone, bad = bench.write("b.html", "<p>y</p>"), bench.write("c.html", "<p>z</p>")
    await bench.ingest()
    await bench.ingest(source="other")
    gone.unlink()
    bad.write_bytes(b"\x00" * 99)
    assert (await bench.ingest()).removed == []
    report = await bench.ingest(prune=True)
    assert report.removed == ["b.html"]
    assert {address for source, address in bench.knowledge.held if source == "rules"} == {"a.html", "c.html"}
    assert {address for source, address in bench.knowledge.held if source == "other"} == {"a.html", "b.html", "c.html"}


async def test_prune_refuses_when_nothing_was_read(bench: Bench) -> None:
    path = bench.write("a.html", "<p>x</p>")
    await bench.ingest()
    path.unlink()
    with pytest.raises(IngestError, match="nothing could be read"):
        await bench.ingest(prune=True)
    assert bench.stored() == {"a.html"}


async def test_prune_removes_nothing_when_a_named_folder_is_not_there(bench: Bench) -> None:
    bench.write("one/a.html", "<p>x</p>")
    bench.write("two/b.html", "<p>y</p>")
    await bench.ingest(bench.documents / "one", bench.documents / "two")
    report = await bench.ingest(bench.documents / "one", bench.documents / "tow", prune=True)
    assert (report.removed, len(report.failed)) == ([], 1)
    assert report.unpruned == f"Nothing was pruned: {bench.documents / 'tow'} is missing."
    again = await bench.ingest(bench.documents / "one", bench.documents / "tow")
    assert again.unpruned == "", "nobody asked for it"


async def test_a_dry_run_reports_and_writes_nothing(bench: Bench, tmp_path: Path) -> None:
    bench.write("a.html", "<p>x</p>")
    report = await bench.ingest(dry_run=True, base_url=BASE)
    assert (report.added, report.passages) == (["a.html"], 1)
    assert bench.knowledge.calls == []
    assert not (tmp_path / "data").exists()


async def test_a_dry_run_names_what_prune_would_remove(bench: Bench) -> None:
    bench.write("a.html", "<p>x</p>")
    gone = bench.write("b.html", "<p>y</p>")
    await bench.ingest()
    gone.unlink()
    assert (await bench.ingest(dry_run=True, prune=True)).removed == ["b.html"]
    assert bench.stored() == {"a.html", "b.html"}


async def test_two_documents_cannot_have_one_address(bench: Bench) -> None:
    bench.write("one/a.html", "<p>x</p>")
    bench.write("two/a.html", "<p>y</p>")
    one, two = bench.documents / "one", bench.documents / "two"
    report = await bench.ingest(one, two, one)
    assert report.added == ["a.html"]
    assert [Path(name).parent.name for name, _ in report.failed] == ["two"]
    assert bench.knowledge.held["rules", "a.html"][0].text == "x"


async def test_progress_is_told_before_each_document_and_at_the_end(bench: Bench) -> None:
    bench.write("a.html", "<p>x</p>")
    bench.write("b.html", "<p>y</p>")
    told: list[tuple[str, int, int]] = []
    ingestor = Ingestor(as_port(bench.knowledge), bench.snapshots, bench.registry, count_tokens=len, max_tokens=60)
    await ingestor.ingest(
        [str(bench.documents)],
        source="rules",
        kind="official",
        progress=lambda name, done, total: told.append((Path(name).name, done, total)),
    )
    assert told == [("a.html", 0, 2), ("b.html", 1, 2), ("", 2, 2)]


async def test_the_source_is_registered_beside_the_snapshots_with_its_first_document(bench: Bench) -> None:
    bench.write("a.html", "<nav>x</nav>")
    await bench.ingest(base_url=BASE)
    assert bench.registry.get("rules") is None
    bench.write("a.html", "<p>x</p>")
    await bench.ingest(base_url=BASE)
    assert bench.registry.base_url("rules") == BASE
    await bench.ingest(base_url="/site/")
    assert bench.registry.base_url("rules") == "/site/"


async def test_another_kind_for_a_known_source_is_refused_before_anything_is_read(bench: Bench) -> None:
    bench.registry.put("rules", "reference")
    bench.write("a.html", "<p>x</p>")
    with pytest.raises(IngestError, match="is of kind reference"):
        await bench.ingest()
    assert bench.knowledge.calls == []


def answer(text: str, content_type: str = "text/html; charset=utf-8", status: int = 200) -> httpx.Response:
    return httpx.Response(status, headers={"content-type": content_type}, content=text.encode())


async def test_an_address_is_fetched_and_stored_relative_to_the_base(bench: Bench) -> None:
    bench.answers = {
        f"{BASE}cm/a.html?x=1": answer("<p>x</p>"),
        "https://else.test/b": answer("# H\n\ny", "text/markdown"),
        f"{BASE}c.md": answer("# T\n\nz", "text/plain"),
        f"{BASE}d": answer("plain", "text/plain"),
    }
    report = await bench.ingest(*bench.answers, base_url=BASE)
    assert (report.added, report.failed) == (["cm/a.html?x=1", "https://else.test/b", "c.md", "d"], [])
    assert bench.knowledge.held["rules", "c.md"][0].title == "T"


@pytest.mark.parametrize(
    ("url", "content_type", "title"),
    [
        (f"{BASE}fee%20rules.txt", "text/plain; charset=utf-8", "fee rules"),
        (f"{BASE}rules.v2?x=1", "text/plain", "rules.v2"),
        (f"{BASE}a.html", "text/html", "a"),
        (f"{BASE}n.md", "text/x-markdown", "n"),
        (f"{BASE}n.md", "", "n"),
        ("https://rules.test/", "text/html", "rules.test"),
    ],
)
async def test_a_fetched_page_without_a_title_takes_its_files_name(
    bench: Bench, url: str, content_type: str, title: str
) -> None:
    bench.answers = {url: answer("No title here.", content_type)}
    assert (await bench.ingest(url)).failed == []
    [[passage]] = bench.knowledge.held.values()
    assert passage.title == title


@pytest.mark.parametrize(
    ("name", "content_type"), [("a.md", "text/plain"), ("a", "text/markdown"), ("a.txt", "text/markdown"), ("a.md", "")]
)
async def test_markdown_is_known_by_its_type_or_its_suffix(bench: Bench, name: str, content_type: str) -> None:
    bench.answers = {f"{BASE}{name}": answer("# Fees\n\nPay **it**.", content_type)}
    await bench.ingest(f"{BASE}{name}")
    [[passage]] = bench.knowledge.held.values()
    assert passage.title == "Fees"
    assert passage.text.splitlines()[-1] == "Pay it."


async def test_the_registered_base_serves_when_none_is_given(bench: Bench) -> None:
    bench.registry.put("rules", "official", BASE)
    bench.answers = {f"{BASE}a.html": answer("<p>x</p>")}
    assert (await bench.ingest(f"{BASE}a.html#s1")).added == ["a.html"]


async def test_what_cannot_be_fetched_is_reported(bench: Bench) -> None:
    bench.answers = {
        f"{BASE}404": answer("<p>x</p>", status=404),
        f"{BASE}png": answer("x", "image/png"),
        f"{BASE}big": answer("x" * (MAX_BYTES + 1)),
    }
    names = [*bench.answers, f"{BASE}down", "https://u:p@rules.test/", "http://[::1"]
    report = await bench.ingest(*names)
    assert [name for name, _ in report.failed] == names
    reasons = " | ".join(reason for _, reason in report.failed)
    for part in ("answers 404", "image/png", "longer than 10 MB", "ConnectError", "user name", "not an address"):
        assert part in reasons


async def test_a_redirect_is_followed_but_the_address_stays_the_one_named(bench: Bench) -> None:
    bench.answers = {
        f"{BASE}old": httpx.Response(301, headers={"location": "/book/new"}),
        f"{BASE}new": answer("<p>x</p>"),
    }
    assert (await bench.ingest(f"{BASE}old", base_url=BASE)).added == ["old"]


async def test_a_server_that_never_ends_is_given_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.knowledge.documents.FETCH_TIMEOUT_S", 0.05)

    class Endless(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            while True:
                await asyncio.sleep(0.01)
                yield b" "

    bench.answers = {BASE: httpx.Response(200, headers={"content-type": "text/html"}, stream=Endless())}
    assert "no complete answer" in (await bench.ingest(BASE)).failed[0][1]


async def test_a_page_ingested_before_its_base_was_set_stands_once_afterwards(bench: Bench) -> None:
    urls = [f"{BASE}a.html", f"{BASE}b.html", "https://else.test/c.html"]
    bench.answers = {url: answer("<p>x</p>") for url in urls}
    assert (await bench.ingest(*urls)).added == urls
    dry = await bench.ingest(urls[0], base_url=BASE, dry_run=True)
    assert (dry.added, dry.removed, bench.stored()) == (["a.html"], [urls[0]], set(urls))
    report = await bench.ingest(urls[0], urls[2], base_url=BASE)
    assert (report.added, report.removed, report.unchanged) == (["a.html"], [urls[0]], [urls[2]])
    assert bench.stored() == {"a.html", urls[1], urls[2]}
    assert (await bench.ingest(*urls)).removed == [urls[1]]
    assert bench.stored() == {"a.html", "b.html", urls[2]}


async def test_a_wider_base_gives_a_page_one_new_address(bench: Bench) -> None:
    bench.answers = {f"{BASE}a.html": answer("<p>x</p>")}
    await bench.ingest(f"{BASE}a.html", base_url=BASE)
    report = await bench.ingest(f"{BASE}a.html", base_url="https://rules.test/")
    assert (report.added, report.removed, bench.stored()) == (["book/a.html"], ["a.html"], {"book/a.html"})


@pytest.mark.parametrize("order", [1, -1])
async def test_an_address_that_a_wider_base_gives_to_another_page_is_that_page_s(bench: Bench, order: int) -> None:
    urls = [f"{BASE}a.html", "https://rules.test/a.html"][::order]
    bench.answers = {url: answer("<p>x</p>") for url in urls}
    await bench.ingest(f"{BASE}a.html", base_url=BASE)
    await bench.ingest(*urls, base_url="https://rules.test/")
    assert bench.stored() == {"book/a.html", "a.html"}
    assert (await bench.ingest(*urls)).removed == []


async def test_the_old_address_stays_where_the_page_cannot_be_read_again(bench: Bench) -> None:
    bench.answers = {f"{BASE}a.html": answer("<p>x</p>")}
    await bench.ingest(f"{BASE}a.html")
    bench.answers = {}
    assert len((await bench.ingest(f"{BASE}a.html", base_url=BASE)).failed) == 1
    assert bench.stored() == {f"{BASE}a.html"}
