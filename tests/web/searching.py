"""The real web search over the loopback peers, and pages for them."""

from dataclasses import dataclass, field

from service.knowledge.snapshots import Snapshots
from service.ports import Reranker, WebAsk, WebFindings
from service.web.duckduckgo import DuckDuckGo, WebLimits
from service.web.engine import DuckDuckGoEngine
from service.web.fetch import FetchLimits
from service.web.masking import Masks
from tests.web.peer import Answer, Engine, Net, responds

QUICK = WebLimits(budget_s=2.5, try_s=1.0, pause_s=(0.0, 0.01))


def page(*paragraphs: str, title: str = "Tolls") -> Answer:
    body = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    return responds(f"<!doctype html><title>{title}</title><main><h1>{title}</h1>{body}</main>")


def overlap(question: str, text: str) -> float:
    """A reranker's rule that a test can foresee: the share of the question's words in the text."""
    asked = set(question.lower().split())
    return len(asked & set(text.lower().replace(".", " ").split())) / len(asked)


def web_over(
    engine: Engine,
    net: Net,
    reranker: Reranker,
    snapshots: Snapshots,
    limits: WebLimits = QUICK,
    masks: Masks | None = None,
    fetching: FetchLimits | None = None,
) -> DuckDuckGo:
    asked = DuckDuckGoEngine(engine.proxy, str(engine.authority.ca))
    return DuckDuckGo(asked, net.fetcher(fetching), masks or Masks(), reranker, snapshots, limits)


@dataclass
class Searching:
    """One web search with its peers, and what was told of it."""

    web: DuckDuckGo
    snapshots: Snapshots
    engine: Engine
    net: Net
    wordings: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)

    async def ask(self, question: str, words: str | None = None, **given: object) -> WebFindings:
        async def write(masked: str) -> str:
            self.wordings.append(masked)
            return masked if words is None else words

        return await self.web.search(WebAsk(question, write, self.sent.append, **given))  # type: ignore[arg-type]
