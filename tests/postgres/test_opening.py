"""A database that cannot be used at start ends in an error that says what to do, not in a traceback."""

from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from service.errors import OperatorError
from service.postgres.pool import open_pool
from service.thread_store import open_postgres
from tests.postgres_server import PASSWORD, PostgresServer

pytestmark = pytest.mark.slow


@pytest.fixture
def guest(postgres: PostgresServer) -> Iterator[str]:
    """The URL of a role that owns nothing in an empty database: an account on a shared server."""
    postgres.empty()
    postgres.ask(f"CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'")
    yield postgres.url(role="guest")
    postgres.ask("DROP OWNED BY guest")
    postgres.ask("DROP ROLE guest")


async def open_once(url: str) -> None:
    async with AsyncExitStack() as stack:
        await open_postgres(url, stack)


async def test_a_role_without_create_is_told_which_right_it_lacks(postgres: PostgresServer, guest: str) -> None:
    postgres.ask("GRANT USAGE ON SCHEMA public TO guest")
    with pytest.raises(OperatorError, match="permission denied for schema public") as told:
        await open_once(guest)
    assert "GRANT USAGE, CREATE ON SCHEMA public TO guest" in str(told.value)
    assert PASSWORD not in str(told.value)


async def test_what_it_is_told_to_grant_is_enough(postgres: PostgresServer, guest: str) -> None:
    with pytest.raises(OperatorError) as told:
        await open_once(guest)
    grant = str(told.value).partition("run: ")[2].partition(";")[0]
    postgres.ask(grant)
    await open_once(guest)


async def test_tables_of_another_role_are_said_to_need_their_owner(postgres: PostgresServer, guest: str) -> None:
    await open_once(postgres.url())
    postgres.ask("DELETE FROM checkpoint_migrations WHERE v > 0")
    postgres.ask("GRANT USAGE, CREATE ON SCHEMA public TO guest")
    postgres.ask("GRANT ALL ON ALL TABLES IN SCHEMA public TO guest")
    with pytest.raises(OperatorError, match="it must own them"):
        await open_once(guest)


async def test_a_role_that_may_open_too_few_connections_is_told_so(postgres: PostgresServer, guest: str) -> None:
    postgres.ask("GRANT USAGE, CREATE ON SCHEMA public TO guest")
    postgres.ask("ALTER ROLE guest CONNECTION LIMIT 1")
    with pytest.raises(OperatorError, match="has connections to give"):
        await open_once(guest)


async def test_a_pool_that_gets_no_connection_says_where_to_look(
    postgres: PostgresServer, guest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.postgres.pool.CONNECT_S", 1)
    postgres.ask("ALTER ROLE guest CONNECTION LIMIT 0")
    with pytest.raises(OperatorError, match="max_connections"):
        async with open_pool(guest, most=2):
            pass
