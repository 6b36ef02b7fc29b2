"""Stops of runs that this process does not answer, where it is the only one."""

from collections.abc import Callable


class NoReplicas:
    """`RunStops` without replicas: what is not under way here is under way nowhere."""

    def obey(self, stop: Callable[[str, str], bool]) -> None:
        pass

    async def ask(self, run_id: str, client: str) -> bool:  # noqa: ARG002 - the port's signature
        return False
