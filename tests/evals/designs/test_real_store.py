"""The comparison over the real store, reranker and web pages: a few cases, twice, and with Quote."""

from pathlib import Path

import pytest

from evals.designs.compare import Plan, all_cases, compare, open_bench
from evals.designs.table import markdown
from service.settings import load_settings


@pytest.mark.slow
async def test_a_few_cases_give_the_same_table_twice_and_quote_runs_too(tmp_path: Path) -> None:
    settings = load_settings().model_copy(update={"DATA_DIR": tmp_path, "MILVUS_URI": "", "TORCH_THREADS": 1})
    cases, plan = all_cases(4), Plan("scripted", (0.15,), 1)
    async with open_bench(settings, "scripted", lambda _: None) as opened:
        first, second = [await compare(plan, opened, cases, lambda _: None) for _ in range(2)]
        assert markdown(first) == markdown(second)
        assert all(row["failed"] == 0 for row in first["rows"])
    async with open_bench(settings, "quote", lambda _: None) as opened:
        quoted = await compare(Plan("quote", (0.0,), 1), opened, cases, lambda _: None)
        by_key = {row["key"]: row for row in quoted["rows"]}
        assert by_key["7d"]["unasked_searches"] == by_key["5"]["unasked_searches"] == 0
        assert all(row["unsupported"] == 0 for row in quoted["rows"])  # Quote says nothing that its sources do not
