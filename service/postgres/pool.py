"""Connections to PostgreSQL: bounded in time, and one error for whatever is wrong with them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from service.errors import OperatorError, ThreadsUnavailable

ANSWER_S = 5.0
"""Longest wait for the database. It is asked for single rows by key, which takes milliseconds."""

CONNECT_S = 5
POOL_S = 3.0
LEAST_VERSION = 140_000  # idle_session_timeout, which locks.py switches off for its session

Pool = AsyncConnectionPool[AsyncConnection[DictRow]]

AWAY = (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout, TimeoutError, OSError)
AWAY_TEXT = "The conversations cannot be reached at the moment. Please try again shortly."

KEEPALIVE: dict[str, Any] = {
    "connect_timeout": CONNECT_S,
    # A firewall that drops idle connections, or a host that is gone, is noticed within a minute.
    "keepalives_idle": 30,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    "application_name": "gatehouse",
}


@asynccontextmanager
async def answering() -> AsyncIterator[None]:
    """Bound the work in time. Raises `ThreadsUnavailable` for a database that is away, restarting or silent."""
    try:
        async with asyncio.timeout(ANSWER_S):
            yield
    except AWAY as error:
        raise ThreadsUnavailable(AWAY_TEXT) from error


@asynccontextmanager
async def open_pool(url: str, *, most: int) -> AsyncIterator[Pool]:
    """Open at most `most` connections, checked before each use: a restart of the database heals by itself.

    Raises `OperatorError` where not even one is to be had.
    """
    pool: Pool = AsyncConnectionPool(
        url,
        kwargs={**KEEPALIVE, "autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
        min_size=1,
        max_size=most,
        open=False,
        timeout=POOL_S,
        configure=_bound_statements,
        check=AsyncConnectionPool.check_connection,
        name="threads",
    )
    try:
        await pool.open(wait=True, timeout=CONNECT_S)
    except PoolTimeout as error:
        raise OperatorError(
            f"The PostgreSQL of DATABASE_URL gave no connection within {CONNECT_S} s. Look into its log: "
            "max_connections or the CONNECTION LIMIT of the role may be reached. A replica needs 10 connections."
        ) from error
    try:
        yield pool
    finally:
        await pool.close(timeout=2)


async def _bound_statements(connection: AsyncConnection[DictRow]) -> None:
    await connection.execute(f"SET statement_timeout = {int(ANSWER_S * 1000)}")


async def check_database(url: str) -> None:
    """Raises `OperatorError` that says why the database cannot be used, without repeating the address's password."""
    try:
        async with await AsyncConnection.connect(url, connect_timeout=CONNECT_S) as connection:
            version = connection.info.server_version
    except psycopg.ProgrammingError:
        raise OperatorError(
            "DATABASE_URL is not an address of PostgreSQL. Write postgresql://user:password@host:5432/name, with the "
            "password's special characters percent-encoded."
        ) from None
    except psycopg.OperationalError as error:
        raise OperatorError(
            f"The PostgreSQL of DATABASE_URL cannot be used: {str(error).strip()}\n"
            "Start it or mend the address, or leave DATABASE_URL empty: the threads are then kept in DATA_DIR."
        ) from None
    if version < LEAST_VERSION:
        raise OperatorError(f"PostgreSQL {version // 10_000} is too old to keep the threads. Use 14 or newer.")
