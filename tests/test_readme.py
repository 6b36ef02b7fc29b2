"""What can drift is generated: the README's drawing, settings and commands equal the code's (acceptance 3).

And no document is left with a place that was still to be filled.
"""

import re
from pathlib import Path

import service
from service.graph.build import mermaid
from service.settings import Settings
from service.settings_table import settings_table
from tests.readme import README, filled

CODE = Path(service.__file__).parent
DESIGN = CODE / "DESIGN.md"


def test_the_generated_parts_of_the_readme_are_current() -> None:
    text = README.read_text(encoding="utf-8")
    assert filled(text) == text, "run `make readme`"


def test_the_design_describes_the_nodes_that_are_drawn() -> None:
    described = re.findall(r"^\| `(\w+)` \|", DESIGN.read_text(encoding="utf-8"), re.MULTILINE)
    drawn = {word.rstrip(";") for line in mermaid().splitlines() for word in line.split() if word[0].isalpha()}
    assert len(described) == 12
    assert set(described) == drawn - {"graph", "TD"}


def test_every_invariant_that_the_code_refers_to_is_in_the_design() -> None:
    stated = re.findall(r"^(\d+)\. ", DESIGN.read_text(encoding="utf-8"), re.MULTILINE)
    cited = {n for path in CODE.rglob("*.py") for n in re.findall(r"invariant (\d+)", path.read_text(encoding="utf-8"))}
    assert cited
    assert cited <= set(stated)


def test_every_setting_says_what_it_is() -> None:
    assert all(info.description for info in Settings.model_fields.values())
    assert settings_table().count("\n") == len(Settings.model_fields) + 2


def test_no_document_holds_a_placeholder() -> None:
    root = README.parent
    folders = ("deploy", "evals", "service", "skills")
    documents = [README, *(path for folder in folders for path in sorted((root / folder).rglob("*.md")))]
    assert len(documents) > 30
    left = {str(path.relative_to(root)): re.findall(r"@@\w+@@", path.read_text(encoding="utf-8")) for path in documents}
    assert not {name: found for name, found in left.items() if found}
