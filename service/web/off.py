"""The web, switched off by the operator: an answer that says so, no query, and no socket."""

from service.model import ComponentState
from service.ports import WebAsk, WebFindings

REASON = "The web was asked for, but web search is switched off in this installation. Nothing was sent."


class NoWeb:
    async def search(self, ask: WebAsk) -> WebFindings:  # noqa: ARG002 - the port's signature
        return WebFindings(query="", status="forbidden", warning=REASON)

    def state(self) -> ComponentState:
        return ComponentState("web", True, "off (WEB_SEARCH_ENABLED=false)")
