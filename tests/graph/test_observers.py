"""Whoever watches runs is told of each once, at its end, and cannot disturb it."""

from pathlib import Path

from service.record import RunRecord
from tests.fakes import FixedKnowledge, ScriptedModel, passage, services
from tests.running import House


class Watching:
    def __init__(self) -> None:
        self.seen: list[RunRecord] = []

    def ended(self, record: RunRecord) -> None:
        self.seen.append(record)


class Broken:
    def ended(self, record: RunRecord) -> None:
        raise RuntimeError(f"no room for {record['run_id']}")


async def test_an_observer_is_told_of_each_run_once_with_the_steps_it_took(tmp_path: Path) -> None:
    watching = Watching()
    home = House(services(tmp_path, knowledge=FixedKnowledge([passage(1)])), ScriptedModel(), observers=[watching])
    [*_, done] = await home.ask()
    [record] = watching.seen
    assert (record["run_id"], record["ending"]["outcome"]) == (done["run_id"], done["status"])
    nodes = [step["node"] for step in record["steps"]]
    assert nodes[:2] == ["contextualize", "retrieve_vector"]
    assert nodes[-1] == "finalize"
    assert all(step["ms"] is not None for step in record["steps"])


async def test_an_observer_that_breaks_changes_no_run_and_hides_it_from_no_other(tmp_path: Path) -> None:
    watching = Watching()
    home = House(
        services(tmp_path, knowledge=FixedKnowledge([passage(1)])), ScriptedModel(), observers=[Broken(), watching]
    )
    [*_, done] = await home.ask()
    assert done["status"] == "answered"
    assert [record["run_id"] for record in watching.seen] == [done["run_id"]]
