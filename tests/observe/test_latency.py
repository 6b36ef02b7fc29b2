"""The benchmark of what traces and scores cost measures chats of each kind."""

from pathlib import Path

import pytest

from tests.observe.latency import BLOCK, KINDS, measured, table


@pytest.mark.slow
async def test_the_benchmark_measures_every_kind_of_chat(tmp_path: Path) -> None:
    arms = await measured(tmp_path, 1)
    assert [(len(arm.first), len(arm.last)) for arm in arms] == [(BLOCK, BLOCK)] * len(KINDS)
    assert table(arms).count("\n") == 1 + len(KINDS)
