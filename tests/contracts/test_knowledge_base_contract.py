"""What every `KnowledgeBase` does, run against Milvus Lite."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from service.errors import IngestError
from service.knowledge.milvus import MilvusKnowledge
from service.model import Kind, Scope
from service.ports import KnowledgeBase
from tests.contracts.passages import WordEmbedder, passage

pytestmark = pytest.mark.slow

EVERYTHING = Scope()
NASTY_NAMES = [
    'with "quotes"',
    "back\\slash",
    "ends in a backslash\\",
    '") or 1==1 or ("',
    '\\") or 1==1 or (\\"',
    "new\nline\r\ttab",
    "emoji 😀",
    "50% _like_ this",
    "it's",
]


@pytest.fixture
def embedder() -> WordEmbedder:
    return WordEmbedder()


@pytest.fixture
async def knowledge(tmp_path: Path, embedder: WordEmbedder) -> AsyncIterator[KnowledgeBase]:
    store = await MilvusKnowledge.open(str(tmp_path / "milvus.db"), embedder=embedder)
    yield store
    await store.close()


async def found(knowledge: KnowledgeBase, query: str, scope: Scope = EVERYTHING, limit: int = 10) -> list[str]:
    return [candidate.passage.text for candidate in await knowledge.search(query, limit=limit, scope=scope)]


async def test_a_search_finds_a_passage_by_its_words(knowledge: KnowledgeBase) -> None:
    texts = ["reconcile balances daily", "zebra crossings", "complaints within eight weeks"]
    await knowledge.replace("rulebook", "/rules/1.html", [passage(text) for text in texts])
    assert (await found(knowledge, "zebra"))[0] == "zebra crossings"


async def test_a_search_finds_another_form_of_a_word(knowledge: KnowledgeBase) -> None:
    texts = ["the firm reconciled its balances", *(f"unrelated matter {n}" for n in range(20))]
    await knowledge.replace("rulebook", "/rules/1.html", [passage(text) for text in texts])
    assert (await found(knowledge, "reconciling balance"))[0] == texts[0]


async def test_a_search_finds_a_passage_by_its_meaning(knowledge: KnowledgeBase) -> None:
    texts = ["money", "zebra crossings", "complaints within eight weeks"]
    await knowledge.replace("rulebook", "/rules/1.html", [passage(text) for text in texts])
    assert (await found(knowledge, "cash"))[0] == "money"


async def test_candidates_come_best_first_and_no_more_than_asked_for(knowledge: KnowledgeBase) -> None:
    await knowledge.replace("rulebook", "/rules/1.html", [passage(f"money rule {n}") for n in range(12)])
    candidates = await knowledge.search("money rule 7", limit=5, scope=EVERYTHING)
    scores = [candidate.score for candidate in candidates]
    assert len(scores) == 5
    assert scores == sorted(scores, reverse=True)
    assert candidates[0].passage.text == "money rule 7"


@pytest.mark.parametrize("query", ["", "???", "the of and", "\ud800", "\0", 'a" or "b', "😀"])
async def test_a_query_without_searchable_words_still_gets_an_answer(knowledge: KnowledgeBase, query: str) -> None:
    await knowledge.replace("rulebook", "/rules/1.html", [passage("money")])
    assert await found(knowledge, query) == ["money"]


async def test_an_empty_knowledge_base_finds_nothing(knowledge: KnowledgeBase) -> None:
    assert await found(knowledge, "money") == []
    assert await knowledge.count() == 0
    assert await knowledge.documents("rulebook") == {}


async def test_a_passage_comes_back_as_it_was_stored(knowledge: KnowledgeBase) -> None:
    stored = passage('“Client money” is\u00a0held — on trust 😀\n\tat \\ a "bank"', passage_id='a"b\\c\n', page=7)
    await knowledge.replace("rulebook", "/rules/1.html", [stored])
    assert await knowledge.get(stored.passage_id) == stored
    assert [c.passage for c in await knowledge.search("client money", limit=3, scope=EVERYTHING)] == [stored]


@pytest.mark.parametrize("passage_id", ["missing", "", "\ud800", "\0", '" or passage_id != "'])
async def test_get_gives_none_for_an_unknown_passage(knowledge: KnowledgeBase, passage_id: str) -> None:
    await knowledge.replace("rulebook", "/rules/1.html", [passage("money")])
    assert await knowledge.get(passage_id) is None


async def test_replacing_a_document_twice_changes_nothing(knowledge: KnowledgeBase) -> None:
    passages = [passage("one"), passage("two")]
    await knowledge.replace("rulebook", "/rules/1.html", passages)
    await knowledge.replace("rulebook", "/rules/1.html", passages)
    assert await knowledge.count() == 2
    assert await knowledge.documents("rulebook") == {"/rules/1.html": "a" * 64}


async def test_a_page_that_became_shorter_loses_its_tail(knowledge: KnowledgeBase) -> None:
    """U19."""
    other = passage("kept", address="/rules/2.html")
    await knowledge.replace("rulebook", other.address, [other])
    await knowledge.replace("rulebook", "/rules/1.html", [passage(text) for text in ("one", "two", "three")])
    await knowledge.replace("rulebook", "/rules/1.html", [passage("one", sha256="b" * 64)])
    assert sorted(await found(knowledge, "one two three kept")) == ["kept", "one"]
    assert await knowledge.documents("rulebook") == {"/rules/1.html": "b" * 64, "/rules/2.html": "a" * 64}


async def test_replacing_a_document_with_nothing_takes_it_out(knowledge: KnowledgeBase) -> None:
    await knowledge.replace("rulebook", "/rules/1.html", [passage("one")])
    await knowledge.replace("rulebook", "/rules/1.html", [])
    assert await knowledge.count() == 0


async def test_removing_a_document_leaves_the_others(knowledge: KnowledgeBase) -> None:
    namesake = passage("another source", source="notes")
    await knowledge.replace("rulebook", "/rules/1.html", [passage("one"), passage("two")])
    await knowledge.replace("notes", "/rules/1.html", [namesake])
    await knowledge.remove("rulebook", "/rules/1.html")
    await knowledge.remove("rulebook", "/never/there.html")
    assert await found(knowledge, "one two another source") == ["another source"]


async def test_an_embedding_that_fails_keeps_the_version_that_stood(
    knowledge: KnowledgeBase, embedder: WordEmbedder
) -> None:
    """U19."""
    await knowledge.replace("rulebook", "/rules/1.html", [passage("old")])
    embedder.broken = True
    with pytest.raises(RuntimeError, match="broke"):
        await knowledge.replace("rulebook", "/rules/1.html", [passage("new", sha256="b" * 64)])
    embedder.broken = False
    assert await found(knowledge, "old new") == ["old"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("x" * 70_000, "70,000 bytes"), ("é" * 40_000, "80,000 bytes"), ("\ud83d", "surrogate"), ("a\0b", "NUL")],
)
async def test_text_that_cannot_be_stored_is_refused_and_the_old_version_kept(
    knowledge: KnowledgeBase, text: str, complaint: str
) -> None:
    await knowledge.replace("rulebook", "/rules/1.html", [passage("old", passage_id="1")])
    with pytest.raises(IngestError, match=complaint):
        await knowledge.replace("rulebook", "/rules/1.html", [passage(text, passage_id="2")])
    assert await found(knowledge, "old") == ["old"]


async def test_the_longest_text_that_can_be_stored_comes_back_whole(knowledge: KnowledgeBase) -> None:
    text = "é" * 32_700
    await knowledge.replace("rulebook", "/rules/1.html", [passage(text, passage_id="long")])
    got = await knowledge.get("long")
    assert got is not None
    assert got.text == text


async def test_a_passage_of_another_document_is_a_bug(knowledge: KnowledgeBase) -> None:
    with pytest.raises(ValueError, match="another document"):
        await knowledge.replace("rulebook", "/rules/2.html", [passage("one")])


async def test_two_passages_with_one_id_are_a_bug(knowledge: KnowledgeBase) -> None:
    with pytest.raises(ValueError, match="one passage_id"):
        await knowledge.replace(
            "rulebook", "/rules/1.html", [passage("a", passage_id="1"), passage("b", passage_id="1")]
        )


@pytest.mark.parametrize("name", NASTY_NAMES)
async def test_a_scope_admits_its_sources_only_whatever_their_names(knowledge: KnowledgeBase, name: str) -> None:
    await knowledge.replace(name, "/a", [passage("money inside", source=name, address="/a")])
    await knowledge.replace("other", "/a", [passage("money outside", source="other", address="/a")])
    assert await found(knowledge, "money", Scope(sources=frozenset({name}))) == ["money inside"]
    assert await found(knowledge, "money", Scope(sources=frozenset({name + " "}))) == []
    assert await knowledge.documents(name) == {"/a": "a" * 64}
    await knowledge.remove(name, "/a")
    assert await found(knowledge, "money") == ["money outside"]


async def test_a_scope_admits_its_kinds_only(knowledge: KnowledgeBase) -> None:
    kinds: list[Kind] = ["official", "reference"]
    for kind in kinds:
        await knowledge.replace(kind, "/a", [passage(f"money {kind}", source=kind, address="/a", kind=kind)])
    assert await found(knowledge, "money", Scope(kinds=frozenset({"reference"}))) == ["money reference"]
    both = Scope(sources=frozenset({"official"}), kinds=frozenset({"reference"}))
    assert await found(knowledge, "money", both) == []


@pytest.mark.parametrize(
    "scope",
    [
        Scope(sources=frozenset()),
        Scope(kinds=frozenset()),
        Scope(sources=frozenset(), kinds=frozenset({"official"})),
        Scope(sources=frozenset({"\ud800", "\0"})),
    ],
)
async def test_an_allowlist_that_names_nothing_admits_nothing(knowledge: KnowledgeBase, scope: Scope) -> None:
    await knowledge.replace("rulebook", "/rules/1.html", [passage("money")])
    assert await found(knowledge, "money", scope) == []


async def test_the_state_names_the_store_and_counts_its_passages(knowledge: KnowledgeBase) -> None:
    await knowledge.replace("rulebook", "/rules/1.html", [passage("one"), passage("two")])
    state = await knowledge.state()
    assert state.ok
    assert "2 passages" in state.detail
    assert state.warning == ""
