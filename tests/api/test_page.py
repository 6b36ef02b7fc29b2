"""The page at `/` and its files: nothing inline, nothing of a third party, and headers that hold it to that."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from service.api.app import UI
from tests.fakes import ScriptedModel, services
from tests.running import House
from tests.served import serving

POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "connect-src": "'self'",
    "img-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
}
LOADS = {"src", "href", "data", "action", "poster", "srcset", "formaction", "background", "ping"}
FILES = sorted(path.name for path in UI.iterdir() if path.is_file())
SCRIPTS = [name for name in FILES if name.endswith(".js")]


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def read(name: str) -> str:
    return (UI / name).read_text(encoding="utf-8")


async def test_the_page_may_load_and_run_only_what_this_server_serves_and_stand_in_no_frame(tmp_path: Path) -> None:
    async with serving(House(services(tmp_path), ScriptedModel())) as served:
        answers = [await served.client.get(path) for path in ("/", "/?next=/sources/x", "/ui/index.html")]
    for answer in answers:
        assert answer.status_code == 200
        policy = answer.headers["content-security-policy"]
        assert dict(rule.strip().split(" ", 1) for rule in policy.split(";")) == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "set-cookie" not in answer.headers


def test_the_page_has_nothing_inline_and_names_no_other_server() -> None:
    page = _Page()
    page.feed(read("index.html"))
    scripts = [attributes for tag, attributes in page.tags if tag == "script"]
    assert scripts
    assert all(re.fullmatch(r"/ui/[a-z_-]+\.js", attributes.get("src") or "") for attributes in scripts)
    assert not re.search(r"<script[^>]*>\s*[^<\s]", read("index.html"))
    assert not {tag for tag, _ in page.tags} & {"style", "iframe", "object", "embed", "base"}
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name == "style" or name.startswith("on")], tag
        for name in LOADS & set(attributes):
            assert re.match(r"(/(?!/)|#)", attributes[name] or ""), (tag, attributes)


@pytest.mark.parametrize("name", FILES)
def test_no_file_of_the_page_names_another_server(name: str) -> None:
    found = set(re.findall(r"https?:\\?/\\?/[^\s\"'`)>]+|@import|url\(\s*['\"]?(?:[a-z]+:|//)", read(name)))
    assert found <= {"http://www.w3.org/2000/svg"}, name


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_runs_text_or_writes_markup_but_the_one_answer_that_the_server_sanitised(name: str) -> None:
    text = read(name)
    assert not re.search(
        r"\beval\(|new Function|document\.write|outerHTML|insertAdjacentHTML|setTimeout\(\s*[\"'`]", text
    )
    assert not re.search(r"[\"'`]style[\"'`]\s*[,:]", text)
    written = re.findall(r"innerHTML\s*\+?=\s*([^;]+);", text)
    assert all(re.fullmatch(r"[a-z]+\.html", value.strip()) for value in written), written


def test_markup_is_written_in_one_place_only() -> None:
    assert sum(read(name).count("innerHTML") for name in SCRIPTS) == 1
