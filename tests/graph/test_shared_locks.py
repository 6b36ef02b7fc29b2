"""A thread's lock that replicas share, as a run takes and lets go of it. PostgreSQL's own: tests/postgres."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from service.errors import AuditUnavailable, ThreadBusy, ThreadsUnavailable, TooManyRuns
from service.graph.events import Done, Terminal
from service.graph.run import Request
from service.threads import ThreadRef
from tests.audit.logs import audit_log, bodies
from tests.fakes import ScriptedModel, services
from tests.running import House
from tests.served import serving

THREAD = ThreadRef("alice", "t1")


class SharedLocks:
    """Locks as another replica leaves them: `held` elsewhere, or not to be asked for (`away`)."""

    def __init__(self, *held: str, away: bool = False, on_release: Callable[[str], None] = lambda _: None) -> None:
        self.held, self.away, self.on_release = set(held), away, on_release
        self.asked: list[str] = []

    async def take(self, name: str) -> bool:
        self.asked.append(name)
        await asyncio.sleep(0)
        if self.away:
            raise ThreadsUnavailable("The conversations cannot be reached.")
        return name not in self.held

    async def release(self, name: str) -> None:
        self.on_release(name)

    async def taken(self, name: str) -> bool:
        return name in self.held

    async def confirm(self, name: str) -> None:
        pass


@pytest.mark.parametrize(
    ("locks", "error"),
    [(SharedLocks(THREAD.key), ThreadBusy), (SharedLocks(away=True), ThreadsUnavailable)],
    ids=["held by another replica", "the database is away"],
)
async def test_a_run_that_is_not_admitted_leaves_no_record_no_turn_and_no_note(
    tmp_path: Path, locks: SharedLocks, error: type[Exception]
) -> None:
    async with audit_log(tmp_path / "audit") as audit:
        model = ScriptedModel()
        house = House(services(tmp_path), model, locks=locks, audit=audit)
        run = house.runs.start(Request(THREAD, "cobalt"))
        with pytest.raises(error):
            await run.admitted()
        await run.ended()
        assert not house.runs.busy(THREAD)
        assert (await house.history.state(THREAD))["turns"] == []
    async with audit_log(tmp_path / "audit"):  # opened again: what a note of a beginning has left would be recorded now
        assert bodies(tmp_path / "audit") == []


@pytest.mark.slow
async def test_a_thread_that_another_replica_answers_is_409_before_any_stream(tmp_path: Path) -> None:
    held = ThreadRef("127.0.0.1", "t").key
    async with (
        audit_log(tmp_path / "audit") as audit,
        serving(House(services(tmp_path), ScriptedModel(), locks=SharedLocks(held), audit=audit)) as served,
    ):
        refused = await served.client.post("/chat", json={"question": "cobalt", "thread_id": "t"})
        erased = await served.client.delete("/threads/t")
        for response in (refused, erased):
            assert (response.status_code, response.json()["error"]["code"]) == (409, "thread_busy")
            assert response.headers["content-type"] == "application/json"
        assert bodies(tmp_path / "audit") == bodies(tmp_path / "audit", "erasure") == []


async def test_the_lock_is_let_go_of_after_the_record_and_before_the_last_event(tmp_path: Path) -> None:
    seen: list[tuple[int, bool]] = []

    def look(name: str) -> None:
        if name == THREAD.key:
            events = [run.told.get_nowait() for _ in range(run.told.qsize())]
            seen.append((len(bodies(tmp_path / "audit")), any(isinstance(told.event, Terminal) for told in events)))

    async with audit_log(tmp_path / "audit") as audit:
        house = House(services(tmp_path), ScriptedModel(), locks=SharedLocks(on_release=look), audit=audit)
        run = house.runs.start(Request(THREAD, "amber"))
        await run.ended()
        assert seen == [(1, False)]
        assert isinstance(run.told.get_nowait().event, Terminal)


async def test_the_shared_lock_is_asked_for_last_of_all(tmp_path: Path) -> None:
    locks = SharedLocks()
    async with audit_log(tmp_path / "audit") as audit:
        full = House(services(tmp_path), ScriptedModel(), locks=locks, audit=audit, max_runs_per_client=0, max_runs=0)
        with pytest.raises(TooManyRuns):
            full.runs.start(Request(THREAD, "amber"))
    async with audit_log(tmp_path / "audit", min_free_bytes=10**18) as audit:
        house = House(services(tmp_path), ScriptedModel(), locks=locks, audit=audit)
        with pytest.raises(AuditUnavailable):
            house.runs.start(Request(THREAD, "amber"))
        assert not house.runs.busy(THREAD)
    await asyncio.sleep(0)
    assert locks.asked == []


def broken(_: str) -> None:
    raise RuntimeError("a fault that the locks did not foresee")


async def test_a_lock_that_breaks_as_it_is_let_go_of_changes_neither_the_answer_nor_the_next_turn(
    tmp_path: Path,
) -> None:
    async with audit_log(tmp_path / "audit") as audit:
        locks = SharedLocks(on_release=lambda name: broken(name) if name == THREAD.key else None)
        house = House(services(tmp_path), ScriptedModel(), locks=locks, audit=audit)
        run = house.runs.start(Request(THREAD, "amber"))
        told = [told async for told in run.events()]
        assert isinstance(told[-1].event, Done), "the reader is told what the record says"
        with pytest.raises(RuntimeError):
            async with house.runs.holding(THREAD):
                pass
        assert not house.runs.busy(THREAD)
        assert [body["ending"]["outcome"] for body in bodies(tmp_path / "audit")] == ["answered"]


class Speechless(ScriptedModel):
    @property
    def warning(self) -> str:
        raise RuntimeError("a fault of the model's adapter")

    @warning.setter
    def warning(self, _: str) -> None:
        pass


async def test_a_run_that_breaks_as_it_begins_leaves_its_thread_free(tmp_path: Path) -> None:
    models = iter([Speechless(), ScriptedModel()])
    house = House(services(tmp_path), lambda: next(models))
    with pytest.raises(RuntimeError):
        house.runs.start(Request(THREAD, "amber"))
    assert (house.runs.running, house.runs.busy(THREAD)) == (0, False)
    assert (await house.ask("amber"))[-1]["type"] == "done"
