"""The log: one line an event, as text or JSON, with the ids of the request and the run, and no way to forge a line.

What is asked, answered or read stands in no line. Should a library quote it all the same, what looks like a key, an
e-mail address, an IBAN or a card is taken out here.
"""

import json
import logging
import re
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from service.printable import on_one_line
from service.sensitive import IBAN_SHAPE, without_ibans, without_secrets

REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="")
RUN_ID: ContextVar[str] = ContextVar("run_id", default="")
"""A task has the context of whoever started it, so that every line of a run carries both."""

Style = Literal["text", "json"]
MAX_CHARACTERS = 16_000
"""Of a message below CRITICAL: a critical one may be all that is left of an audit record, and stays whole."""
NOISY = ("httpx", "httpcore", "pymilvus", "milvus_lite", "faiss", "sentence_transformers")

PRIVATE = re.compile(
    r"[\w.%+'-]{1,64}@(?=[A-Za-z])[\w-]+(?:\.[\w-]+)+"
    rf"|{IBAN_SHAPE}"
    r"|(?<![\w.,-])\d{4}(?:[ -]?\d{4}){2}[ -]?\d{3,4}(?![\w.-])"  # a card
)
MARK = "[masked]"


class Line(logging.Formatter):
    """What both styles share: the message as a whole, bounded, without secrets; the ids; the fields of `extra`."""

    def message_of(self, record: logging.LogRecord) -> str:
        try:
            said = record.getMessage()
        except (TypeError, ValueError):
            said = str(record.msg)  # a mistaken line is better than none
        if record.levelno >= logging.CRITICAL:
            return said
        if len(said) > MAX_CHARACTERS:
            said = f"{said[:MAX_CHARACTERS]} ... ({len(said) - MAX_CHARACTERS} more characters)"
        return masked(said)

    def traceback_of(self, record: logging.LogRecord) -> str:
        parts = [self.formatException(record.exc_info)] if record.exc_info and record.exc_info[0] else []
        parts += [record.stack_info] if record.stack_info else []
        return masked("\n".join(parts))

    def fields_of(self, record: logging.LogRecord) -> dict[str, Any]:
        ids = {"request_id": REQUEST_ID.get(), "run_id": RUN_ID.get()}
        return {**getattr(record, "fields", {}), **{name: value for name, value in ids.items() if value}}


class JsonLine(Line):
    """One JSON object a line, in ASCII: every control character is escaped by JSON itself."""

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": self.message_of(record),
            **self.fields_of(record),
        }
        if traceback := self.traceback_of(record):
            said["traceback"] = traceback
        return json.dumps(said, ensure_ascii=True, default=str)


class TextLine(Line):
    """For a person at a terminal. A line that does not begin with a time belongs to the one above it."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        message = self.message_of(record)
        fields = [f"{name}={value}" for name, value in self.fields_of(record).items()]
        fields = [field for field in fields if field not in message]  # some name the run in their own words
        first = on_one_line(" ".join([at, record.levelname, record.name, message, *fields]))
        return "\n".join([first, *(f"    {on_one_line(line)}" for line in self.traceback_of(record).splitlines())])


def masked(text: str) -> str:
    return PRIVATE.sub(MARK, without_ibans(MARK, without_secrets(MARK, text)))


def log_to(stream: TextIO, level: int, style: Style) -> None:
    """Send every logger's lines to `stream`, uvicorn's and the libraries' among them. Replaces what was set before."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLine() if style == "json" else TextLine())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.captureWarnings(True)
    for noisy in NOISY:
        logging.getLogger(noisy).setLevel(max(level, logging.WARNING))


def style_for(chosen: Literal["auto", "text", "json"], stream: TextIO = sys.stderr) -> Style:
    """`auto` is text for a terminal, JSON for everything else."""
    if chosen == "auto":
        return "text" if stream.isatty() else "json"
    return chosen
