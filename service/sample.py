"""The sample knowledge base of the demo and the evaluation: an invented rulebook, an invented practice's notes."""

from dataclasses import dataclass
from pathlib import Path

from service.model import Kind

FOLDER = Path(__file__).parent.parent / "evals" / "knowledge"
RULEBOOK = FOLDER / "rulebook"


@dataclass(frozen=True, slots=True)
class SampleSource:
    folder: Path
    name: str
    kind: Kind
    base_url: str


SAMPLE = (
    # The demo serves these pages itself, so that a citation opens a real page at the sentence.
    SampleSource(RULEBOOK, "mfca-rulebook", "official", "/site/"),
    SampleSource(FOLDER / "notes", "harrow-lisle-notes", "reference", ""),
)
