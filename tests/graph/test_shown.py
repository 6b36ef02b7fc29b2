"""What a client was shown can be opened again, whatever else of a run's end cannot be written."""

from pathlib import Path
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from service.errors import ModelUnavailable, ThreadsUnavailable
from service.graph.history import History
from service.graph.run import Request
from service.threads import ThreadRef
from tests.fakes import ScriptedModel, cite_first, services
from tests.running import House
from tests.wire import Frame, of


class NoListOnce(InMemoryStore):
    """Its first row of the list of threads cannot be written."""

    failed = False

    async def aput(self, *given: Any, **more: Any) -> None:
        if not self.failed:
            self.failed = True
            raise ThreadsUnavailable("The row is held elsewhere.")
        await super().aput(*given, **more)


async def held(house: House, frames: list[Frame]) -> list[bool]:
    """Of each source that was shown: can the client open it, now that the run has ended?"""
    items = [item for frame in of(frames, "sources") for item in frame["items"]]
    assert items
    return [await house.history.shown.holds("alice", item["passage_id"], item["sha256"]) for item in items]


async def test_a_list_that_cannot_be_written_takes_nothing_from_what_was_shown(tmp_path: Path) -> None:
    store = NoListOnce()
    house = House(services(tmp_path), ScriptedModel(), store=store)
    frames = await house.ask()
    assert (frames[-1]["type"], store.failed) == ("done", True)
    assert all(await held(house, frames))
    await house.ask("And the next?")
    assert [thread.turns for thread in await house.history.threads("alice")] == [2]


async def test_numbers_that_cannot_be_kept_take_nothing_from_what_was_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failing(*_: object) -> None:
        raise ThreadsUnavailable("PostgreSQL does not answer.")

    monkeypatch.setattr(History, "keep_numbers", failing)
    broken = ScriptedModel(draft=lambda _, sources: ModelUnavailable("It broke off.", cite_first(sources)))
    house = House(services(tmp_path), broken)
    frames = await house.ask()
    assert frames[-1]["code"] == "model_unavailable"
    assert all(await held(house, frames))


async def test_sources_that_cannot_be_remembered_take_nothing_from_the_list_or_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failing(*_: object) -> None:
        raise ThreadsUnavailable("PostgreSQL does not answer.")

    house = House(services(tmp_path), ScriptedModel(delay_s=0.2))
    monkeypatch.setattr(house.history.shown, "remember", failing)
    assert (await house.ask())[-1]["type"] == "done"
    assert [thread.turns for thread in await house.history.threads("alice")] == [1]
    stopped = house.runs.start(Request(ThreadRef("alice", "t2"), "stopped"))
    async for told in stopped.events():
        if house.presenter.frame(told, stopped.run_id).type == "sources":
            stopped.stop()
    assert (await house.history.state(ThreadRef("alice", "t2")))["registry"]
