"""Where a citation's link leads. Addresses are stored relative to their source's base, or whole; here they meet it."""

from collections.abc import Callable

from service.citations.links import source_link
from service.model import Passage, StoredSource


class Links:
    """Resolves stored sources to absolute links.

    `base_of` gives the base URL of a source by its name: absolute, or a path on this server ("/site/"), or "" for
    sources without addresses, whose links open our own page of the stored snapshot. `public_url` is this server's base.
    """

    def __init__(self, base_of: Callable[[str], str], public_url: str) -> None:
        self._base_of = base_of
        self._public_url = public_url.rstrip("/")

    def page(self, item: StoredSource) -> str:
        """The page itself, or our page of its snapshot."""
        return self.to(item, "", "")

    def to(self, item: StoredSource, directive: str, quote: str) -> str:
        """The page opened at `directive`; for what has no page of its own, our snapshot page with `quote` marked."""
        base = self._base_of(item["source"])
        site_base = self._public_url + base if base.startswith("/") else base
        return source_link(
            placed(item), site_base=site_base, directive=directive, public_base=self._public_url, quote=quote
        )


def placed(item: StoredSource) -> Passage:
    """The part of a passage that says where it is; its text is not needed for a link."""
    return Passage(
        passage_id=item["passage_id"],
        sha256=item["sha256"],
        source=item["source"],
        kind=item["kind"],
        title=item["title"],
        address=item["address"],
        section=item["section"],
        headings=(),
        context="",
        text=item["quote"],
        spans=(),
        fetched_at=item["fetched_at"],
        page=item["page"],
    )
