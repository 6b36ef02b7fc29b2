"""Quote mode over the labelled questions: whatever it cites stands in its source, word for word."""

from pathlib import Path

import pytest

from evals.house import open_house
from evals.seed import load_questions
from service.llm.quote import Thresholds
from service.settings import load_settings

pytestmark = pytest.mark.slow

EVERY = 8


async def test_every_citation_of_quote_mode_is_verified(tmp_path: Path) -> None:
    """Every eighth question; `python -m evals seed` asks them all."""
    settings = load_settings().model_copy(update={"DATA_DIR": tmp_path, "MILVUS_URI": "", "TORCH_THREADS": 1})
    async with open_house(settings) as house:
        results = [await house.run(question, Thresholds()) for question in load_questions()[::EVERY]]
    statuses = [status for result in results for status in result.statuses]
    assert len(statuses) > len(results) // 4
    assert set(statuses) == {"verified"}
