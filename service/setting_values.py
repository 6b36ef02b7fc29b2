"""What the text of a setting may be, where a pattern alone cannot say it: networks, names, keys and addresses."""

import re
from ipaddress import ip_network
from typing import Annotated

from pydantic import AfterValidator, SecretStr

from service.keys import parse_keys

HOST_NAME = re.compile(
    r"\*|(?:\*\.)?[\w-]+(?:\.[\w-]+)*\.?|\[?[0-9A-Fa-f:.]*:[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*\]?", re.ASCII
)
"""A name that a server is asked under, with what `Access` takes: `*`, `*.name`, a name, an address."""


def words_of(text: str) -> list[str]:
    """The parts of a comma-separated setting."""
    return [word.strip() for word in text.split(",") if word.strip()]


def hashed_keys(text: str) -> str:
    parse_keys(text)
    return text


def networks(text: str) -> str:
    for word in words_of(text):
        ip_network(word)
    return text


def host_names(text: str) -> str:
    for word in words_of(text):
        if not HOST_NAME.fullmatch(word):
            raise ValueError(
                f"{word!r} is no name: write gatehouse.example.org or *.example.org, without scheme, port and path"
            )
    return text


def redis_url(url: SecretStr) -> SecretStr:
    if url.get_secret_value() and not url.get_secret_value().startswith(("redis://", "rediss://", "unix://")):
        raise ValueError("must begin with redis://, rediss:// or unix://")
    return url


def database_url(url: SecretStr) -> SecretStr:
    if url.get_secret_value() and not url.get_secret_value().startswith(("postgresql://", "postgres://")):
        raise ValueError("must begin with postgresql://, for example postgresql://user:password@host:5432/name")
    return url


HashedKeys = Annotated[str, AfterValidator(hashed_keys)]
Networks = Annotated[str, AfterValidator(networks)]
HostNames = Annotated[str, AfterValidator(host_names)]
RedisUrl = Annotated[SecretStr, AfterValidator(redis_url)]
DatabaseUrl = Annotated[SecretStr, AfterValidator(database_url)]
