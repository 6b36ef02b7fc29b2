"""What can drift is generated: the README's drawing, settings and commands equal the code's (acceptance 3)."""

from service.graph.build import mermaid
from service.settings import Settings
from service.settings_table import settings_table
from tests.readme import README, filled


def test_the_generated_parts_of_the_readme_are_current() -> None:
    text = README.read_text(encoding="utf-8")
    assert filled(text) == text, "run `make readme`"


def test_the_drawing_shows_the_twelve_nodes_of_the_design() -> None:
    nodes = {
        "contextualize",
        "retrieve_vector",
        "rerank_vector",
        "search_web",
        "grade_documents",
        "rewrite_query",
        "give_up",
        "assemble_sources",
        "generate",
        "reflect",
        "prepare_regen",
        "finalize",
    }
    drawn = {word.rstrip(";") for line in mermaid().splitlines() for word in line.split() if word[0].isalpha()}
    assert nodes == drawn - {"graph", "TD"}


def test_every_setting_says_what_it_is() -> None:
    assert all(info.description for info in Settings.model_fields.values())
    assert settings_table().count("\n") == len(Settings.model_fields) + 2
