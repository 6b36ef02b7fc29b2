"""Where traces go is said by the settings, and never assumed."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from pydantic import ValidationError

from service.audit.off import NoAudit
from service.errors import OperatorError
from service.knowledge.snapshots import Snapshots
from service.observe.null import NoTraces
from service.observing import feedback_observers, open_observers, states_of
from service.settings import Settings, load_settings
from service.tracing import open_traces

KEYS = {"LANGFUSE_PUBLIC_KEY": "pk-lf-1", "LANGFUSE_SECRET_KEY": "sk-lf-1"}
NOBODY = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("chosen", "detail", "warned"),
    [
        ({}, "off", False),
        (KEYS, "off: LANGFUSE_HOST is not set", False),
        ({"LANGFUSE_HOST": NOBODY}, "off", True),
    ],
)
async def test_without_keys_and_an_address_nothing_is_built(chosen: dict[str, str], detail: str, warned: bool) -> None:
    async with AsyncExitStack() as stack:
        traces = await open_traces(Settings.model_validate(chosen), stack)
    assert isinstance(traces, NoTraces)
    assert (traces.state().ok, traces.state().detail) == (True, detail)
    assert ("LANGFUSE_PUBLIC_KEY" in traces.state().warning) is warned


async def test_with_keys_and_an_address_the_traces_are_told_of_runs_and_of_feedback_and_named_on_readyz(
    tmp_path: Path,
) -> None:
    async with AsyncExitStack() as stack:
        chosen = Settings.model_validate(
            {"LANGFUSE_HOST": "http://me:secret@127.0.0.1:9/x", "TRACE_SAMPLE_RATE": 0.25} | KEYS
        )
        observers = await open_observers(chosen, stack, NoAudit("a test of something else"), Snapshots(tmp_path))
        [state] = [state for state in states_of(observers) if state.name == "traces"]
        assert state.ok
        assert state.detail == "Langfuse at 127.0.0.1:9: 0 sent, 0 waiting, 0 dropped, 25% of the runs"
        assert id(observers[0]) in map(id, feedback_observers(observers))


async def test_a_list_of_names_that_cannot_be_read_is_refused_at_start(tmp_path: Path) -> None:
    chosen = {"LANGFUSE_HOST": NOBODY, "WEB_MASK_FILE": str(tmp_path / "none")} | KEYS
    with pytest.raises(OperatorError, match="WEB_MASK_FILE"):
        async with AsyncExitStack() as stack:
            await open_traces(Settings.model_validate(chosen), stack)


@pytest.mark.parametrize("alone", list(KEYS))
def test_one_key_without_the_other_is_refused_at_start(alone: str) -> None:
    with pytest.raises(ValidationError, match="belong together"):
        Settings.model_validate({alone: KEYS[alone]})


def test_the_address_goes_by_both_of_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGFUSE_BASE_URL", "http://one:3000")
    assert load_settings().LANGFUSE_HOST == "http://one:3000"
    monkeypatch.setenv("LANGFUSE_HOST", "http://two:3000")
    assert load_settings().LANGFUSE_HOST == "http://two:3000"


def test_an_address_that_is_none_is_refused_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGFUSE_HOST", "langfuse:3000")
    with pytest.raises(OperatorError, match="LANGFUSE_HOST"):
        load_settings()
