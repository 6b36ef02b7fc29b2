"""A run's tree, from its record alone: also of a run that broke, was stopped, or did something unheard of."""

from pathlib import Path

from service.errors import ModelUnavailable
from service.observe.tree import Observation, trace_of
from service.record import RunRecord
from tests.fakes import FixedKnowledge, ScriptedModel, cut, passage, services
from tests.graph.test_observers import Watching
from tests.observe.tracing import Spending
from tests.running import House


async def record_of(folder: Path, model: ScriptedModel, *, max_seconds: float = 30) -> RunRecord:
    watching = Watching()
    knowledge = FixedKnowledge([passage(1), passage(2)])
    home = House(services(folder, knowledge=knowledge), model, observers=[watching], deadline_s=max_seconds)
    await home.ask()
    return watching.seen[0]


def named(root: Observation, name: str) -> list[Observation]:
    return [child for child in root.children if child.name == name]


async def test_a_run_that_broke_is_an_error_with_its_code_and_the_steps_it_took(tmp_path: Path) -> None:
    def broken(*_: object) -> Exception:
        return ModelUnavailable("The model does not answer.")

    root = trace_of(await record_of(tmp_path, ScriptedModel(draft=broken))).root
    assert (root.level, root.status) == ("ERROR", "model_unavailable")
    [draft] = named(root, "generate")
    assert (draft.level, draft.status, draft.output) == ("WARNING", "unfinished", None)


async def test_a_run_that_ran_out_of_time_ends_its_last_step_with_it(tmp_path: Path) -> None:
    root = trace_of(await record_of(tmp_path, Spending(delay_s=0.4), max_seconds=0.6)).root
    assert (root.level, root.status, root.metadata["outcome"]) == ("WARNING", "deadline_exceeded", "deadline")
    last = root.children[-1]
    assert (last.level, last.status) == ("WARNING", "unfinished")
    assert root.began <= last.began <= last.ended <= root.ended


async def test_a_draft_that_was_cut_says_so(tmp_path: Path) -> None:
    root = trace_of(await record_of(tmp_path, ScriptedModel(draft=lambda *_: cut("It is [[1]].")))).root
    assert named(root, "generate")[0].metadata["cut"] == "max_tokens"


async def test_a_request_of_no_known_step_stands_below_the_run_itself(tmp_path: Path) -> None:
    record = await record_of(tmp_path, Spending())
    record["calls"][0] = {**record["calls"][0], "name": "unheard_of"}
    [stray] = named(trace_of(record).root, "unheard_of")
    assert (stray.kind, stray.usage) == ("generation", {"input": 100, "output": 10})


async def test_a_request_that_a_clock_puts_before_its_step_is_still_below_it(tmp_path: Path) -> None:
    record = await record_of(tmp_path, Spending())
    [call] = [call for call in record["calls"] if call["name"] == "answer"]
    call["began_at"] = record["asked_at"]
    root = trace_of(record).root
    [draft] = named(root, "generate")
    assert [child.name for child in draft.children] == ["answer"]
    assert root.began <= draft.began <= draft.children[0].began


async def test_metadata_holds_no_text_of_the_conversation(tmp_path: Path) -> None:
    record = await record_of(tmp_path, ScriptedModel())
    texts = [record["question"], record["answer"], "Rulebook"]

    def metadata(item: Observation) -> str:
        return f"{item.metadata}" + "".join(metadata(child) for child in item.children)

    everything = metadata(trace_of(record).root)
    assert [text for text in texts if text in everything] == []
