"""The generated parts of README.md: `python -m tests.readme --write` writes them, a test compares them."""

import json
import re
import sys
from pathlib import Path

from typer.testing import CliRunner

from evals.designs.table import RESULTS, readme_part
from service.cli import app
from service.graph.build import mermaid
from service.settings_table import settings_table

README = Path(__file__).parent.parent / "README.md"


def commands_help() -> str:
    """The list of commands as `gatehouse --help` prints it, at a fixed width and without colour."""
    plain = {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}
    result = CliRunner().invoke(app, ["--help"], prog_name="gatehouse", env=plain)
    return "\n".join(line.rstrip() for line in result.output.strip().splitlines())


def generated() -> dict[str, str]:
    """Each generated part by the name of its marks in the README."""
    return {
        "graph": f"```mermaid\n{mermaid().strip()}\n```",
        "settings": settings_table().strip(),
        "designs": readme_part(json.loads(RESULTS.read_text(encoding="utf-8"))),
        "commands": f"```text\n{commands_help()}\n```",
    }


def filled(text: str) -> str:
    """The README with every generated part as the code has it now. Raises `ValueError` for a part without marks."""
    for name, body in generated().items():
        marks = re.compile(rf"(<!-- {name}: generated -->\n).*?(<!-- end {name} -->)", re.DOTALL)
        if not marks.search(text):
            raise ValueError(f"README.md has no marks for {name}")
        text = marks.sub(lambda found, body=body: found[1] + body + "\n" + found[2], text)  # type: ignore[misc]
    return text


if __name__ == "__main__":
    text = filled(README.read_text(encoding="utf-8"))
    if "--write" in sys.argv:
        README.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
