"""`python -m evals audit` measures a log that the product itself calls whole."""

from pathlib import Path

from evals.audit import measure


def test_the_benchmark_measures_a_whole_log(tmp_path: Path) -> None:
    timing = measure(tmp_path, 300)
    assert timing.records == 300
    assert "`verify` of the whole log" in timing.table()
