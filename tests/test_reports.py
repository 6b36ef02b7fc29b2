"""Every known report of a fault has a test that names it, and no test names one that is not known."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reports import REPORTS

TESTS = Path(__file__).parent
ID = re.compile(r"(?<![A-Za-z0-9])[DU]\d\d(?!\d)")


def named() -> Iterator[tuple[str, str]]:
    """The ids in the names, docstrings and cases of the tests."""
    for file in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                words = f"{node.name.replace('_', ' ')} {ast.get_docstring(node) or ''}"
                for found in ID.findall(words):
                    yield found, f"{file.name}::{node.name}"


@pytest.mark.parametrize("report", REPORTS)
def test_a_test_names_the_report(report: str) -> None:
    assert [test for found, test in named() if found == report]


def test_no_test_names_a_report_that_nobody_made() -> None:
    assert {found for found, _ in named()} <= REPORTS.keys()
