"""What the text of a setting may be, where a pattern alone cannot say it: networks, names, keys and addresses."""

import re
from ipaddress import ip_network
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, SecretStr
from pydantic_core import ErrorDetails

from service.keys import parse_keys

HOST_NAME = re.compile(
    r"\*|(?:\*\.)?[\w-]+(?:\.[\w-]+)*\.?|\[?[0-9A-Fa-f:.]*:[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*\]?", re.ASCII
)
"""A name that a server is asked under, with what `Access` takes: `*`, `*.name`, a name, an address."""


HTTP_ADDRESS_OR_NONE = r"^(https?://\S+)?$"
PRINTABLE = r"^[!-~]*$"
PATTERNS = {
    HTTP_ADDRESS_OR_NONE: "must begin with http:// or https://, for example https://name.example.org, without spaces",
    PRINTABLE: "must be letters, digits and signs of ASCII, without spaces",
}
"""What a setting must be, in the operator's words, by the pattern that it must match."""


def words_of(text: str) -> list[str]:
    """The parts of a comma-separated setting."""
    return [word.strip() for word in text.split(",") if word.strip()]


def hashed_keys(text: str) -> str:
    parse_keys(text)
    return text


def networks(text: str) -> str:
    for word in words_of(text):
        check_network(word)
    return text


def check_network(word: str) -> None:
    """Raises `ValueError` that says how a network is written."""
    try:
        ip_network(word)
    except ValueError:
        try:
            meant = f"{ip_network(word, strict=False)}, or {word.partition('/')[0]} for that machine alone"
        except ValueError:
            meant = "an address, 10.0.0.7, or a network, 10.0.0.0/8"
        raise ValueError(f"{word!r} is no network: write {meant}") from None


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


def base_address(url: str) -> str:
    path = urlsplit(url).path
    if "?" in url or "#" in url or "/api/public" in path or "/project/" in path:
        raise ValueError(
            "must be the server's own address, for example https://langfuse.example.org: leave out what its pages "
            "and its API have behind it"
        )
    return url


def said_of(item: ErrorDetails) -> str:
    """What is wrong with a value, without the value: it may be a key."""
    if item["type"] == "string_pattern_mismatch" and item["ctx"]["pattern"] in PATTERNS:
        return PATTERNS[item["ctx"]["pattern"]]
    return item["msg"].removeprefix("Value error, ")


HashedKeys = Annotated[str, AfterValidator(hashed_keys)]
Networks = Annotated[str, AfterValidator(networks)]
HostNames = Annotated[str, AfterValidator(host_names)]
RedisUrl = Annotated[SecretStr, AfterValidator(redis_url)]
DatabaseUrl = Annotated[SecretStr, AfterValidator(database_url)]
BaseAddress = Annotated[str, AfterValidator(base_address)]
