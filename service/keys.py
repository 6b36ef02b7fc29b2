"""Clients' keys. A key is shown once, when it is made; the settings hold its SHA-256 only.

One round of SHA-256 is enough because a key is 256 random bits: nobody can try them all. It would not be for a
password, which is why keys are made here and never chosen.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
"""A client's name: no period and no colon, so that it is never the same as an address."""

KEY_PREFIX = "gh_"
"""By which a person, and every mask, sees what it is."""

DIGEST = re.compile(r"[0-9a-f]{64}")
MAX_KEY = 200


@dataclass(frozen=True, slots=True)
class ClientKey:
    """A client's name, and the SHA-256 of its key (64 hex digits)."""

    name: str
    digest: str

    def __str__(self) -> str:
        return f"{self.name}:{self.digest}"


def make_key() -> str:
    """Return a new key: 256 bits from the system's generator, safe in a header and in a shell."""
    return f"{KEY_PREFIX}{secrets.token_urlsafe(32)}"


def digest_of(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def parse_keys(text: str) -> tuple[ClientKey, ...]:
    """Read `name:digest` pairs, separated by commas. One name may have several keys, while one replaces another.

    Raises `ValueError` that never repeats what was given: it may be a key.
    """
    keys = tuple(_parsed(part.strip(), place) for place, part in enumerate(text.split(","), start=1) if part.strip())
    if len({key.digest for key in keys}) < len(keys):
        raise ValueError("the same key stands there twice: each client needs a key of its own")
    return keys


def _parsed(part: str, place: int) -> ClientKey:
    name, _, digest = part.partition(":")
    if not NAME.fullmatch(name):
        raise ValueError(f"entry {place} must be NAME:SHA256, with a name of letters, digits, - and _")
    if not DIGEST.fullmatch(digest):
        raise ValueError(f"entry {place} must hold the SHA-256 that `gatehouse key NAME` prints, not the key itself")
    return ClientKey(name, digest)


class Keys:
    """Tells whose key a key is."""

    def __init__(self, keys: Iterable[ClientKey] = ()) -> None:
        self._keys = tuple(keys)

    def __bool__(self) -> bool:
        return bool(self._keys)

    def find(self, key: str) -> ClientKey | None:
        """Return the client's key, or None. Every key is compared, in constant time."""
        if len(key) > MAX_KEY:
            return None
        digest = digest_of(key.encode("utf-8", "replace").decode())
        found = [known for known in self._keys if hmac.compare_digest(known.digest, digest)]
        return found[0] if found else None

    def holds(self, key: ClientKey) -> bool:
        """Is this key still one of those that count?"""
        return key in self._keys
