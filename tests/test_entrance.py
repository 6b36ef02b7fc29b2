"""Who a server lets in, from its settings: refused at start where anybody could come in unsaid."""

import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli import app, main
from service.entrance import access_of, check_identity, open_limiter
from service.errors import OperatorError
from service.keys import ClientKey, digest_of, make_key
from service.ratelimit.fallback import WithFallback
from service.ratelimit.memory import MemoryLimiter
from service.settings import Settings, load_settings

KEY = make_key()
LINE = f"alice:{digest_of(KEY)}"


@pytest.fixture(autouse=True)
def away_from_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No `.env` of a developer's."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_a_server_on_loopback_needs_no_key(host: str) -> None:
    check_identity(Settings(HOST=host))
    assert access_of(Settings(HOST=host)).anonymous


def test_other_names_for_loopback_need_no_key() -> None:
    check_identity(Settings(ALLOWED_HOSTS="localhost, LocalHost,127.0.0.1, ::1", PUBLIC_URL="http://localhost:8000"))


OPEN = [
    {"HOST": "0.0.0.0"},
    {"HOST": "::"},
    {"HOST": "192.0.2.1"},
    {"HOST": "gatehouse.test"},
    {"TRUSTED_PROXIES": "127.0.0.1"},
    {"PUBLIC_URL": "https://gatehouse.test"},
    {"ALLOWED_HOSTS": "gatehouse.test"},
    {"ALLOWED_HOSTS": "localhost, *.gatehouse.test"},
    {"ALLOWED_HOSTS": "192.0.2.1", "PUBLIC_URL": "http://localhost:8000"},
    {"HOST": "0.0.0.0", "API_KEYS": " , "},
]


@pytest.mark.parametrize("changes", OPEN, ids=str)
def test_a_server_that_others_reach_is_refused_without_keys_and_says_what_to_do(changes: dict[str, str]) -> None:
    with pytest.raises(OperatorError, match=r"gatehouse key NAME[\s\S]*ALLOW_ANONYMOUS=true") as refused:
        check_identity(Settings.model_validate(changes))
    assert next(iter(changes)) in str(refused.value)
    check_identity(Settings.model_validate({**changes, "ALLOW_ANONYMOUS": True}))
    check_identity(Settings.model_validate({**changes, "API_KEYS": LINE}))


def test_serve_is_refused_before_anything_is_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOST", "0.0.0.0")
    monkeypatch.setattr(sys, "argv", ["gatehouse", "serve"])
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr().err
    assert "No key is set" in said
    assert "loading" not in said


def test_where_keys_are_set_nobody_comes_in_without_one_unless_it_is_said() -> None:
    assert not access_of(Settings(API_KEYS=LINE)).anonymous
    assert access_of(Settings(API_KEYS=LINE, ALLOW_ANONYMOUS=True)).anonymous
    assert access_of(Settings(API_KEYS=LINE)).keys.find(KEY) == ClientKey("alice", digest_of(KEY))


BAD = [
    ("API_KEYS", KEY),
    ("TRUSTED_PROXIES", "proxy.test"),
    ("TRUSTED_PROXIES", "10.0.0.1/8"),
    ("REDIS_URL", "http://x"),
]


@pytest.mark.parametrize(("name", "value"), BAD, ids=[name for name, _ in BAD])
def test_a_bad_setting_is_named_and_its_value_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(OperatorError, match=name) as refused:
        load_settings()
    assert KEY not in str(refused.value)


def test_the_key_command_prints_a_key_and_the_line_that_lets_it_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEYS", LINE)
    monkeypatch.setenv("HOST", "0.0.0.0")
    made = CliRunner().invoke(app, ["key", "bob"])
    assert made.exit_code == 0
    key, line = made.stdout.strip().splitlines()
    name, _, value = line.partition("=")
    assert name == "API_KEYS"
    access = access_of(Settings(API_KEYS=value))
    assert access.keys.find(key) == ClientKey("bob", digest_of(key))
    assert access.keys.find(KEY) == ClientKey("alice", digest_of(KEY))


@pytest.mark.parametrize("name", ["", "192.0.2.1", "a b", "a:b", "-x", "ä", "a" * 65])
def test_the_key_command_refuses_what_cannot_be_a_name(name: str) -> None:
    made = CliRunner().invoke(app, ["key", "--", name])
    assert made.exit_code == 2
    assert "API_KEYS" not in made.stdout


async def test_the_limiter_is_this_processs_own_without_a_redis_and_falls_back_to_it_with_one_that_is_away(
    unused_tcp_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with AsyncExitStack() as stack:
        own = await open_limiter(Settings(RATE_LIMIT_PER_MINUTE=7), stack)
        assert isinstance(own, MemoryLimiter)
        assert own.limit == 7
        url = f"redis://:hidden@127.0.0.1:{unused_tcp_port}/0"
        shared = await open_limiter(Settings(RATE_LIMIT_PER_MINUTE=7, REDIS_URL=url), stack)
        assert isinstance(shared, WithFallback)
        assert "Redis is away" in shared.state().warning
        assert (await shared.take("alice")).remaining == 6
        assert "hidden" not in caplog.text + repr(shared.state()) + repr(Settings(REDIS_URL=url))


@pytest.mark.parametrize("url", ["redis://127.0.0.1:hidden/0", "redis://:hidden/word@127.0.0.1:6379/0"])
async def test_a_redis_url_that_cannot_be_read_is_refused_at_start_without_its_password(url: str) -> None:
    async with AsyncExitStack() as stack:
        with pytest.raises(OperatorError, match=r"REDIS_URL[\s\S]*percent-encode") as refused:
            await open_limiter(Settings(REDIS_URL=url), stack)
    assert "hidden" not in str(refused.value)
