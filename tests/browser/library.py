"""Pages as the product reads, cuts, stores, links and serves them; only the vectors are left out."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from service.api.app import create_app
from service.api.events import SourceItem
from service.api.present import Presenter
from service.citations.quotes import CitationDraft, page_spans
from service.graph.nodes.gather import blocks_of, unnumbered_source
from service.graph.nodes.speak import sentence_directive
from service.knowledge.chunk import CountTokens
from service.knowledge.ingest import Ingestor
from service.knowledge.sentences import sentences
from service.knowledge.snapshots import Snapshots
from service.knowledge.sources import SourceRegistry
from service.links import Links
from service.model import Candidate, Passage, Source, Span, StoredCitation
from service.sample import SampleSource
from service.serve import make_server
from tests.fakes import FixedKnowledge, ScriptedModel, services
from tests.running import House
from tests.served import HOST, PromptServer, api_of, nothing_to_report


@dataclass(frozen=True)
class Linked:
    """A link as the wire carries it, what it should light, and the blocks of its stored page."""

    link: str
    passage: Passage
    spans: tuple[Span, ...]
    blocks: tuple[str, ...]


@dataclass(frozen=True)
class Library:
    """Ingested passages, served at `url` with the official pages under /site/."""

    passages: list[Passage]
    url: str
    _snapshots: Snapshots
    _presenter: Presenter

    def of_passage(self, passage: Passage) -> Linked:
        """The link of `passage` in a `sources` event."""
        return Linked(self._shown(passage).link, passage, passage.spans, self._blocks(passage))

    def of_sentences(self, passage: Passage) -> Iterator[Linked]:
        """The link that a citation has in `done`, for each sentence of `passage`."""
        blocks = self._blocks(passage)
        for start, end in sentences(passage.text):
            spans = page_spans(passage, start, end)
            draft = CitationDraft(1, passage.text[start:end], spans, "verified", "")
            directive = sentence_directive(blocks, draft, Source(1, passage, 1.0))
            citation: StoredCitation = {
                "n": 1,
                "quote": draft.quote,
                "directive": directive,
                "support": 1.0,
                "status": "verified",
            }
            stored = unnumbered_source(Candidate(passage, 1.0), "", blocks)
            yield Linked(self._presenter.citation(citation, stored).link, passage, spans, blocks)

    def _shown(self, passage: Passage) -> SourceItem:
        return self._presenter.source(unnumbered_source(Candidate(passage, 1.0), "", self._blocks(passage)))

    def _blocks(self, passage: Passage) -> tuple[str, ...]:
        return tuple(blocks_of(self._snapshots, passage.sha256))


@asynccontextmanager
async def library(
    folder: Path, sources: Sequence[SampleSource], site: Path, *, count_tokens: CountTokens, max_tokens: int
) -> AsyncIterator[Library]:
    """Ingest `sources` into `folder` and serve them; `site` is what stands under /site/."""
    knowledge = FixedKnowledge([])
    house = House(services(folder / "snapshots", knowledge=knowledge), ScriptedModel())
    snapshots, registry = house.services.snapshots, SourceRegistry(folder / "sources.json")
    ingestor = Ingestor(knowledge, snapshots, registry, count_tokens=count_tokens, max_tokens=max_tokens)
    for source in sources:
        report = await ingestor.ingest(
            [str(source.folder)], source=source.name, kind=source.kind, base_url=source.base_url
        )
        assert not report.failed, report.failed
    async with _serving(house, site) as url:
        yield Library(knowledge.passages, url, snapshots, Presenter(Links(registry.base_url, url)))


@asynccontextmanager
async def _serving(house: House, site: Path) -> AsyncIterator[str]:
    api = replace(api_of(house, 15.0, 65536, 10.0, nothing_to_report), site=site)
    server = PromptServer(make_server(create_app(api), house.runs, HOST, 0).config, house.runs)
    task = asyncio.create_task(server.serve())
    try:
        while not server.started:
            assert not task.done()
            await asyncio.sleep(0.005)
        yield f"http://{HOST}:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
