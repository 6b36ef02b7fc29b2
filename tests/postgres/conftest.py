"""One PostgreSQL for the tests of this folder, emptied for each."""

from collections.abc import Iterator

import pytest

from tests.postgres_server import PostgresServer, running_postgres


@pytest.fixture(scope="package")
def postgres() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.fixture
def database(postgres: PostgresServer) -> str:
    """The URL of an empty database."""
    return postgres.empty()
