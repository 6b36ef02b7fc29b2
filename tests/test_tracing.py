"""Where traces go is said by the settings, and never assumed."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from pydantic import ValidationError

from service.audit.off import NoAudit
from service.errors import OperatorError
from service.in_clear import in_clear_warning
from service.knowledge.snapshots import Snapshots
from service.observe.null import NoTraces
from service.observing import feedback_observers, open_observers, states_of
from service.settings import Settings, load_settings
from service.tracing import open_traces

KEYS = {"LANGFUSE_PUBLIC_KEY": "pk-lf-1", "LANGFUSE_SECRET_KEY": "sk-lf-1"}
NOBODY = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("chosen", "detail", "warning"),
    [
        ({}, "off", ""),
        (KEYS, "off: LANGFUSE_HOST is not set", "Set LANGFUSE_HOST to your Langfuse server, for example https://"),
        ({"LANGFUSE_HOST": NOBODY}, "off", "Set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY."),
    ],
)
async def test_without_keys_and_an_address_nothing_is_built_and_it_is_said_what_to_set(
    chosen: dict[str, str], detail: str, warning: str
) -> None:
    async with AsyncExitStack() as stack:
        traces = await open_traces(Settings.model_validate(chosen), stack)
    assert isinstance(traces, NoTraces)
    assert (traces.state().ok, traces.state().detail) == (True, detail)
    assert warning in traces.state().warning
    assert bool(warning) == bool(traces.state().warning)


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
        assert state.detail == "Langfuse at 127.0.0.1:9/x: 0 sent, 0 waiting, 0 dropped, 25% of the runs"
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


WRONG: list[tuple[dict[str, str], str]] = [
    ({"LANGFUSE_HOST": "langfuse:3000"}, "LANGFUSE_HOST: must begin with http:// or https://, for example"),
    ({"LANGFUSE_HOST": "https://a.test/api/public/otel"}, "LANGFUSE_HOST: must be the server's own address"),
    ({"LANGFUSE_HOST": "https://a.test/project/c1/traces"}, "LANGFUSE_HOST: must be the server's own address"),
    ({"LANGFUSE_HOST": "https://a.test/?project=c1"}, "LANGFUSE_HOST: must be the server's own address"),
    ({"LANGFUSE_PUBLIC_KEY": "pk lf", "LANGFUSE_SECRET_KEY": "s"}, "LANGFUSE_PUBLIC_KEY: must be letters, digits"),
    ({"LANGFUSE_PUBLIC_KEY": "pk-lf-1"}, "set both, or neither"),
    ({"TRACE_SAMPLE_RATE": "2"}, "TRACE_SAMPLE_RATE: Input should be less than or equal to 1"),
    ({"SCORE_SAMPLE_RATE": "0.5"}, "needs JUDGE_MODEL: name the model that scores, or set SCORE_SAMPLE_RATE=0"),
    ({"JUDGE_BASE_URL": "judge.test"}, "JUDGE_BASE_URL: must begin with http:// or https://"),
    (
        {"METRICS_NETWORKS": "prometheus"},
        "METRICS_NETWORKS: 'prometheus' is no network: write an address, 10.0.0.7",
    ),
    ({"METRICS_NETWORKS": "10.0.0.5/8"}, "is no network: write 10.0.0.0/8, or 10.0.0.5 for that machine alone"),
    ({"METRICS_NETWORKS": "10.0.0.0/33"}, "is no network: write an address, 10.0.0.7, or a network, 10.0.0.0/8"),
]


@pytest.mark.parametrize(("given", "said"), WRONG)
def test_a_setting_of_what_watches_that_is_wrong_is_refused_with_what_to_write(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], said: str
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(OperatorError) as refused:
        load_settings()
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("url", "warned"),
    [
        ("http://langfuse.example.org", True),
        ("http://8.8.8.8:3000", True),
        ("http://[2001:4860:4860::8888]:3000", True),
        ("https://langfuse.example.org", False),
        ("http://langfuse-web:3000", False),
        ("http://10.1.2.3:3000", False),
        ("http://langfuse.svc.cluster.local:3000", False),
        (NOBODY, False),
    ],
)
def test_plain_http_to_a_place_outside_is_warned_of(url: str, warned: bool) -> None:
    said = in_clear_warning("LANGFUSE_HOST", url)
    assert said.endswith("can be read on the way. Use https://.") == warned
    assert bool(said) == warned


async def test_readyz_warns_of_traces_that_leave_in_clear() -> None:
    async with AsyncExitStack() as stack:
        chosen = Settings.model_validate({"LANGFUSE_HOST": "http://langfuse.example.org"} | KEYS)
        assert "Use https://" in (await open_traces(chosen, stack)).state().warning


async def test_a_judge_without_a_share_is_said_to_score_nothing(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        chosen = Settings.model_validate({"JUDGE_MODEL": "a-judge", "JUDGE_BASE_URL": NOBODY})
        observers = await open_observers(chosen, stack, NoAudit("a test of something else"), Snapshots(tmp_path))
    [state] = [state for state in states_of(observers) if state.name == "scores"]
    assert "set the share, for example 0.1" in state.detail
