"""Sign-ins of the page: random tokens, kept as their hashes in files, so that a sign-out holds everywhere.

A file per sign-in survives a restart, is seen by every process that shares the folder, and is gone for good once it is
removed; a signed cookie alone could not be taken back.
"""

import asyncio
import hashlib
import json
import re
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from service.errors import OperatorError
from service.files import write_atomically
from service.keys import ClientKey

TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


class Sessions:
    """Who is signed in. A session ends after `hours`, when it is signed out, or when its key is taken away."""

    def __init__(self, directory: Path, hours: float, clock: Callable[[], float] = time.time) -> None:
        self._directory = directory
        self._clock = clock
        self.lasts_s = int(hours * 3600)

    async def begin(self, key: ClientKey) -> str:
        """Return a new session's token. Raises `OperatorError` where it cannot be stored."""
        token = secrets.token_urlsafe(32)
        try:
            await asyncio.to_thread(self._write, self._file(token), key)
        except OSError as error:
            raise OperatorError(
                f"The sign-in could not be stored ({error.strerror}). "
                "Free room in DATA_DIR, or make DATA_DIR/sessions writable."
            ) from error
        return token

    async def key_of(self, token: str) -> ClientKey | None:
        """Return the key that the session was begun with, or None where it is unknown or over."""
        return await asyncio.to_thread(self._read, self._file(token)) if TOKEN.fullmatch(token) else None

    async def end(self, token: str) -> None:
        if TOKEN.fullmatch(token):
            await asyncio.to_thread(self._file(token).unlink, missing_ok=True)

    def _file(self, token: str) -> Path:
        return self._directory / hashlib.sha256(token.encode()).hexdigest()

    def _write(self, file: Path, key: ClientKey) -> None:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._forget_old()
        body = {"name": key.name, "digest": key.digest, "until": self._clock() + self.lasts_s}
        write_atomically(file, json.dumps(body).encode())

    def _read(self, file: Path) -> ClientKey | None:
        """A file that cannot be read is no session: the person signs in again."""
        try:
            body = json.loads(file.read_text(encoding="utf-8"))
            key, until = ClientKey(str(body["name"]), str(body["digest"])), float(body["until"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return key if self._clock() < until else None

    def _forget_old(self) -> None:
        """Remove what is over. The files' own times are enough: a session is written once."""
        for file in self._directory.iterdir():
            try:
                if file.stat().st_mtime + self.lasts_s < time.time():
                    file.unlink(missing_ok=True)
            except OSError:
                continue
