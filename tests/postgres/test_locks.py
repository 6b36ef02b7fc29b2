"""Advisory locks between replicas, on a real PostgreSQL."""

import asyncio

import pytest

from service.errors import ThreadsUnavailable
from service.graph.locks import holding
from service.postgres.locks import AdvisoryLocks, halves, key_of
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.slow


async def test_a_lock_is_held_by_one_replica_and_seen_by_the_other(database: str) -> None:
    one, other = AdvisoryLocks(database), AdvisoryLocks(database)
    assert await one.take("t")
    assert not await other.take("t")
    assert not await one.take("t")
    assert await other.taken("t")
    assert await other.take("another")
    await one.release("t")
    assert not await other.taken("t")
    assert await other.take("t")
    await one.close()
    await other.close()


async def test_what_is_let_go_of_without_being_held_is_no_error_and_frees_nobody_elses(database: str) -> None:
    one, other = AdvisoryLocks(database), AdvisoryLocks(database)
    assert await one.take("t")
    await other.release("t")
    assert await other.taken("t")
    await one.close()
    await other.close()


async def test_a_replica_that_dies_lets_go_of_what_it_held(database: str) -> None:
    one, other = AdvisoryLocks(database), AdvisoryLocks(database)
    assert await one.take("t")
    await one.close()
    async with holding(other, "t", within_s=2):
        assert await one.taken("t")
    await one.close()
    await other.close()


async def test_a_session_that_was_ended_has_lost_its_locks_and_says_so(database: str, postgres: PostgresServer) -> None:
    one, other = AdvisoryLocks(database), AdvisoryLocks(database)
    assert await one.take("t")
    await one.confirm("t")
    postgres.end_sessions()
    with pytest.raises(ThreadsUnavailable, match="lost"):
        await one.confirm("t")
    assert await other.take("t")
    with pytest.raises(ThreadsUnavailable, match="lost"):
        await one.confirm("t")
    await one.release("t")
    assert await one.taken("t")
    await one.close()
    await other.close()


async def test_a_database_that_restarts_is_used_again_without_a_restart_of_ours(
    database: str, postgres: PostgresServer
) -> None:
    locks = AdvisoryLocks(database)
    assert await locks.take("t")
    await locks.release("t")
    await asyncio.to_thread(postgres.stop)
    with pytest.raises(ThreadsUnavailable):
        await locks.take("t")
    await asyncio.to_thread(postgres.start)
    assert await locks.take("t")
    await locks.close()


async def test_a_take_that_is_cancelled_is_let_go_of_by_release(database: str) -> None:
    one, other = AdvisoryLocks(database), AdvisoryLocks(database)
    for wait_s in (0, 0.0005, 0.002, 0.005):
        taking = asyncio.create_task(one.take("t"))
        await asyncio.sleep(wait_s)
        taking.cancel()
        await asyncio.wait([taking])
        await one.release("t")
        assert await other.take("t")
        await other.release("t")
    await one.close()
    await other.close()


def test_a_key_is_a_signed_64_bit_number_and_its_halves_are_what_pg_locks_shows() -> None:
    assert -(2**63) <= key_of("t") < 2**63
    assert key_of("t") != key_of("row t")
    assert halves(-1) == (0xFFFFFFFF, 0xFFFFFFFF)
    assert halves(1 << 32 | 7) == (1, 7)
