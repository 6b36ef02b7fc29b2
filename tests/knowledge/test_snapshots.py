import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from service.errors import IngestError, KnowledgeBaseError
from service.knowledge.chunk import chunk_page
from service.knowledge.readers.html import read_html
from service.knowledge.snapshots import Snapshots
from service.knowledge.sources import RegisteredSource, SourceRegistry
from service.model import Page, Passage

PAGE = read_html("<title>T</title><h1>A</h1><p id=p>1.1 “Pay”\xa0it.</p><table><tr><td>x<td>y</table><nav>n</nav>")


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    return Snapshots(tmp_path / "snapshots")


def passages_of(page: Page, max_tokens: int = 50) -> list[Passage]:
    return chunk_page(
        page,
        source="s",
        kind="official",
        address="a.html",
        sha256="",
        fetched_at="",
        count_tokens=lambda text: len(text.split()),
        max_tokens=max_tokens,
    )


def put(snapshots: Snapshots, page: Page = PAGE, at: str = "2031-01-01T00:00:00Z", max_tokens: int = 50) -> str:
    passages = passages_of(page, max_tokens)
    snapshots.put(page, source="s", kind="official", address="a.html", fetched_at=at, passages=passages)
    return snapshots.hash_of(page, "s", "official", "a.html")


def test_a_snapshot_gives_back_the_page_and_its_passages_spans(snapshots: Snapshots) -> None:
    found = snapshots.get(put(snapshots))
    assert found is not None
    assert found.page == PAGE
    assert (found.source, found.kind, found.address, found.fetched_at) == (
        "s",
        "official",
        "a.html",
        "2031-01-01T00:00:00Z",
    )
    assert found.spans == {passage.passage_id: passage.spans for passage in passages_of(PAGE)}


def test_the_hash_covers_content_and_place_but_not_the_time(snapshots: Snapshots) -> None:
    first = put(snapshots)
    assert put(snapshots, at="2032-01-01T00:00:00Z") == first
    others = [
        snapshots.hash_of(replace(PAGE, title="U"), "s", "official", "a.html"),
        snapshots.hash_of(Page("T", PAGE.blocks[1:]), "s", "official", "a.html"),
        snapshots.hash_of(PAGE, "t", "official", "a.html"),
        snapshots.hash_of(PAGE, "s", "reference", "a.html"),
        snapshots.hash_of(PAGE, "s", "official", "b.html"),
    ]
    assert len({first, *others}) == 6


def test_the_first_time_is_kept_and_spans_of_another_cut_are_added(snapshots: Snapshots) -> None:
    name = put(snapshots)
    put(snapshots, at="2032-01-01T00:00:00Z", max_tokens=3)
    found = snapshots.get(name)
    assert found is not None
    assert found.fetched_at == "2031-01-01T00:00:00Z"
    cuts = [*passages_of(PAGE), *passages_of(PAGE, 3)]
    assert set(found.spans) == {passage.passage_id for passage in cuts}


def test_what_is_stored_already_is_not_written_again(snapshots: Snapshots) -> None:
    path = snapshots.directory / put(snapshots)
    os.utime(path, (1, 1))
    put(snapshots)
    assert path.stat().st_mtime == 1


@pytest.mark.parametrize("name", ["", "0" * 63, "0" * 65, "A" * 64, "../" + "0" * 61, "0" * 64 + "\n", "０" * 64])
def test_a_name_that_is_no_hash_is_no_snapshot(snapshots: Snapshots, name: str) -> None:
    assert snapshots.get(name) is None


def test_an_unknown_hash_is_no_snapshot(snapshots: Snapshots) -> None:
    assert snapshots.get("0" * 64) is None
    assert not snapshots.has("0" * 64)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"1.1 ', '"1.2 '),
        ('"title":"T"', '"title":"U"'),
        ('"kind":"official"', '"kind":"reference"'),
        ('"blocks"', '"block"'),
        ("{", ""),
        (',"spans"', ',"span"'),
    ],
)
def test_a_changed_file_is_refused_and_the_next_put_mends_it(snapshots: Snapshots, old: str, new: str) -> None:
    name = put(snapshots)
    path = snapshots.directory / name
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(KnowledgeBaseError, match="changed or damaged"):
        snapshots.get(name)
    put(snapshots)
    assert snapshots.has(name)


def test_a_span_outside_the_page_is_refused(snapshots: Snapshots) -> None:
    name = put(snapshots)
    path = snapshots.directory / name
    body = json.loads(path.read_text())
    body["spans"] = {"x": [[1, 0, 10_000]]}
    path.write_text(json.dumps(body))
    with pytest.raises(KnowledgeBaseError):
        snapshots.get(name)


def test_a_failed_write_leaves_no_file_and_no_rest(snapshots: Snapshots, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        put(snapshots)
    assert list(snapshots.directory.iterdir()) == []


def test_a_lone_surrogate_does_not_stop_a_snapshot(snapshots: Snapshots) -> None:
    page = read_html("a\ud800b", content_type="text/plain")
    found = snapshots.get(put(snapshots, page))
    assert found is not None
    assert found.page == page


@pytest.fixture
def registry(tmp_path: Path) -> SourceRegistry:
    return SourceRegistry(tmp_path / "data" / "sources.json")


def test_the_base_of_a_source_is_kept_and_may_move(registry: SourceRegistry) -> None:
    assert registry.get("rules") is None
    assert registry.base_url("rules") == ""
    registry.put("rules", "official", "https://rules.test/book")
    registry.put("notes", "reference")
    assert registry.get("rules") == RegisteredSource("official", "https://rules.test/book/")
    registry.put("rules", "official", "/site/")
    assert registry.base_url("rules") == "/site/"
    registry.put("rules", "official")
    assert registry.base_url("rules") == "/site/"
    assert registry.get("notes") == RegisteredSource("reference", "")


def test_a_source_cannot_change_its_kind(registry: SourceRegistry) -> None:
    registry.put("rules", "official")
    with pytest.raises(IngestError, match="'rules' is of kind official"):
        registry.put("rules", "reference")


@pytest.mark.parametrize(
    "base", ["javascript:alert(1)", "//evil.test/", "ftp://x.test/", "https://u:p@x.test/", "x", "https://x.test/?q=1"]
)
def test_a_base_that_is_no_site_is_refused(registry: SourceRegistry, base: str) -> None:
    with pytest.raises(IngestError, match="base URL"):
        registry.put("rules", "official", base)
    assert registry.get("rules") is None


@pytest.mark.parametrize("name", ["", " ", "a" * 65, 'a"b', "a\nb", "../x"])
def test_a_name_that_cannot_be_filtered_by_is_refused(registry: SourceRegistry, name: str) -> None:
    with pytest.raises(IngestError, match="name"):
        registry.put(name, "official")


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', '{"a": {"kind": "x", "base_url": ""}}', "[" * 50_000])
def test_a_damaged_list_of_sources_is_a_clear_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "sources.json"
    path.write_text(text)
    with pytest.raises(IngestError, match=r"sources\.json cannot be read"):
        SourceRegistry(path).get("a")
