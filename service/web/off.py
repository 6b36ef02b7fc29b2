"""The web, switched off: an answer that says so, and no socket."""

from service.model import ComponentState
from service.ports import WebFindings

REASON = "The web was asked for, but web search is not available in this installation. Nothing was sent."


class NoWeb:
    async def search(self, question: str) -> WebFindings:  # noqa: ARG002 - the port's signature
        return WebFindings(query="", status="unavailable", warning=REASON)

    def state(self) -> ComponentState:
        return ComponentState("web", True, "off")
