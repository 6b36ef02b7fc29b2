"""The log's lines: whole, one an event, not to be forged, and without what looks like a secret."""

import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from service.logs import REQUEST_ID, RUN_ID, Style, log_to, style_for

HOSTILE = [
    "one\r\n2031-01-01T00:00:00 ERROR service a forged line",
    'one\n{"level": "ERROR", "message": "forged"}',
    "\x1b[2J\x1b[1;31mcleared and red",
    "\x9b31mC1 control sequence",
    "\x00nul",
    "\u202egnp.exe",
    "\u2028line separator",
    "\ud800 half a character",
    "%s%d%n %(message)s",
    "${jndi:ldap://127.0.0.1/a}",
]
SECRET = [
    "GB82 WEST 1234 5698 7654 32",
    "GB82WEST12345698765432",
    "4929 1234 5678 9012",
    "john.roe@client.test",
    "Bearer abcdef.123456",
    "sk-ant-api03-FAKEFAKE",
    "-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----",
]
STYLES = list(get_args(Style))


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """The root logger as it was before comes back afterwards."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    for handler in handlers:
        root.removeHandler(handler)
    yield io.StringIO()
    logging.captureWarnings(False)
    root.handlers[:], root.level = handlers, level


def lines(stream: io.StringIO) -> list[str]:
    text = stream.getvalue()
    text.encode()
    assert text.endswith("\n")
    return text[:-1].split("\n")


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("value", HOSTILE)
def test_no_value_can_forge_a_line_or_reach_the_terminal(stream: io.StringIO, style: Style, value: str) -> None:
    log_to(stream, logging.INFO, style)
    logging.getLogger("a").warning("said=%s", value)
    logging.getLogger("b").warning(value)
    logged = lines(stream)
    assert len(logged) == 2
    assert all(line.isprintable() for line in logged)
    if style == "json":
        assert json.loads(logged[0])["message"] == f"said={value}"
        assert json.loads(logged[1])["level"] == "WARNING"


@pytest.mark.parametrize("style", STYLES)
def test_a_traceback_cannot_forge_a_line_either(stream: io.StringIO, style: Style) -> None:
    log_to(stream, logging.INFO, style)
    try:
        raise ValueError("x\n2031-01-01T00:00:00 ERROR service forged\r\x1b[2J")
    except ValueError:
        logging.getLogger("a").exception("broke")
    first, *rest = lines(stream)
    assert "broke" in first
    assert all(line.startswith("    ") for line in rest)
    assert all(line.isprintable() for line in (first, *rest))
    if style == "json":
        assert rest == []
        assert "ValueError" in json.loads(first)["traceback"]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("secret", SECRET)
def test_what_looks_like_a_secret_is_masked_in_messages_and_tracebacks(
    stream: io.StringIO, style: Style, secret: str
) -> None:
    log_to(stream, logging.INFO, style)
    try:
        raise ValueError(f"refused: {secret}")
    except ValueError:
        logging.getLogger("a").exception("a library said %r and %s", secret, secret)
    text = stream.getvalue()
    assert "[masked]" in text
    assert secret not in text
    assert repr(secret)[1:-1] not in text
    assert secret[-8:] not in text


def test_ids_hashes_times_and_versions_are_no_secrets(stream: io.StringIO) -> None:
    log_to(stream, logging.INFO, "json")
    kept = (
        "run_id=4f9a1c2b7d8e4f9a1c2b7d8e4f9a1c2b sha256="
        + "53aa51172d142c89" * 4
        + " 2031-01-01T10:11:12 10.0.0.1:8000"
    )
    logging.getLogger("a").info("%s", kept)
    assert json.loads(lines(stream)[0])["message"] == kept


def test_a_long_message_is_cut_but_an_audit_record_that_stands_nowhere_else_is_not(stream: io.StringIO) -> None:
    log_to(stream, logging.INFO, "json")
    logging.getLogger("a").error("x" * 100_000)
    logging.getLogger("a").critical("x" * 100_000 + SECRET[0])
    cut, whole = (json.loads(line)["message"] for line in lines(stream))
    assert len(cut) < 20_000
    assert "84000 more" in cut
    assert whole == "x" * 100_000 + SECRET[0]


def test_a_line_whose_arguments_do_not_fit_is_still_a_line(
    stream: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    log_to(stream, logging.INFO, "json")
    arguments: tuple[Any, ...] = ("two", "words")
    logging.getLogger("a").error("one %s", *arguments)
    assert json.loads(lines(stream)[0])["message"] == "one %s"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("style", STYLES)
def test_every_line_carries_the_ids_of_its_request_and_run(stream: io.StringIO, style: Style) -> None:
    log_to(stream, logging.INFO, style)
    tokens = REQUEST_ID.set("request-1"), RUN_ID.set("run-1")
    logging.getLogger("uvicorn.error").info("a library's line")
    REQUEST_ID.reset(tokens[0])
    RUN_ID.reset(tokens[1])
    logging.getLogger("a").info("of no request")
    inside, outside = lines(stream)
    assert "request-1" in inside
    assert "run-1" in inside
    assert "request_id" not in outside
    if style == "json":
        assert json.loads(inside).keys() == {"time", "level", "logger", "message", "request_id", "run_id"}


def test_text_for_a_terminal_and_json_for_everything_else() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert style_for("auto", Terminal()) == "text"
    assert style_for("auto", io.StringIO()) == "json"
    assert style_for("text", io.StringIO()) == "text"
    assert style_for("json", Terminal()) == "json"
    assert style_for("json", sys.stderr) == "json"
