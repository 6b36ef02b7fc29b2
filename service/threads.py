"""Threads as a client sees them: their keys and their summaries."""

import hashlib
import json
import re
import secrets
from dataclasses import dataclass

THREAD_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
RUN_ID = re.compile(r"r_[A-Za-z0-9_-]{16}")
TITLE_LENGTH = 80


@dataclass(frozen=True, slots=True)
class ThreadRef:
    """What a thread is keyed by: the same `thread_id` of another client or another skill is another thread."""

    client: str
    thread_id: str
    skill: str = ""

    @property
    def key(self) -> str:
        """The checkpointer's thread id: opaque, and no two refs share one."""
        canonical = json.dumps([self.client, self.thread_id, self.skill], ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ThreadSummary:
    """A row of a client's thread list. Times are ISO 8601, UTC."""

    thread_id: str
    skill: str
    title: str
    created_at: str
    updated_at: str
    turns: int


def new_thread_id() -> str:
    return f"t_{secrets.token_urlsafe(12)}"


def new_run_id() -> str:
    return f"r_{secrets.token_urlsafe(12)}"


def title_of(question: str) -> str:
    """The first line of the first question, cut at a word."""
    line = " ".join(question.split())
    if len(line) <= TITLE_LENGTH:
        return line
    return line[:TITLE_LENGTH].rsplit(" ", 1)[0] + "…"
