"""The service can be read: no module is long."""

from pathlib import Path

import service

MAX_LINES = 300
FOLDER = Path(service.__file__).parent


def test_a_module_of_the_service_has_at_most_300_lines() -> None:
    modules = sorted(FOLDER.rglob("*.py"))
    lengths = {str(path.relative_to(FOLDER)): len(path.read_text("utf-8").splitlines()) for path in modules}
    assert len(lengths) > 100
    too_long = {name: length for name, length in lengths.items() if length > MAX_LINES}
    assert not too_long, "a module over 300 lines is two: part it by nouns"
