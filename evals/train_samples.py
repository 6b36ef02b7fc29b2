"""The passages of the sample knowledge base, cut as the product cuts them, without a store."""

from service.knowledge.chunk import CountTokens, chunk_page
from service.knowledge.readers import SUFFIXES, read_page
from service.model import Passage
from service.sample import SAMPLE


def sample_passages(count_tokens: CountTokens, max_tokens: int) -> list[Passage]:
    """Return every passage of the rulebook and of the notes, in the order of their addresses."""
    found: list[Passage] = []
    for sample in SAMPLE:
        for path in sorted(path for path in sample.folder.rglob("*") if path.suffix in SUFFIXES):
            found += chunk_page(
                read_page(path.name, path.read_bytes()),
                source=sample.name,
                kind=sample.kind,
                address=path.relative_to(sample.folder).as_posix(),
                sha256="0" * 64,
                fetched_at="",
                count_tokens=count_tokens,
                max_tokens=max_tokens,
            )
    return found
