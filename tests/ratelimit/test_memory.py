"""The in-process window: exact at its edges, one per client, and bounded in memory."""

import pytest

from service.ports import Allowance, RateLimiter
from service.ratelimit import memory
from service.ratelimit.memory import MemoryLimiter


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def limiter(limit: int = 3) -> tuple[MemoryLimiter, Clock]:
    clock = Clock()
    return MemoryLimiter(limit, clock), clock


def allowed(window: MemoryLimiter, client: str, times: int) -> int:
    return sum(window.admit(client).allowed for _ in range(times))


async def test_the_limit_is_admitted_and_one_more_is_told_how_long_to_wait() -> None:
    window, clock = limiter()
    port: RateLimiter = window
    assert await port.take("alice") == Allowance(True, 3, 2, 60)
    clock.now += 10
    assert await port.take("alice") == Allowance(True, 3, 1, 50)
    assert await port.take("alice") == Allowance(True, 3, 0, 50)
    assert await port.take("alice") == Allowance(False, 3, 0, 50)


def test_one_client_does_not_use_up_anothers_limit() -> None:
    window, _ = limiter()
    assert [allowed(window, name, 5) for name in ("alice", "bob", "Alice", "192.0.2.1")] == [3, 3, 3, 3]


def test_no_minute_holds_more_than_the_limit_however_it_is_cut() -> None:
    window, clock = limiter(limit=5)
    admitted = []
    for _ in range(3000):  # five minutes, ten requests a second
        if window.admit("alice").allowed:
            admitted.append(clock.now)
        clock.now += 0.1
    assert len(admitted) >= 25
    assert all(sum(start <= at < start + 60 for at in admitted) <= 5 for start in admitted)


def test_a_burst_at_the_edge_of_the_window_is_no_second_allowance() -> None:
    window, clock = limiter()
    clock.now += 59.9
    assert allowed(window, "alice", 5) == 3
    clock.now += 0.2
    assert allowed(window, "alice", 5) == 0
    clock.now += 60
    assert allowed(window, "alice", 5) == 3


def test_what_is_refused_is_not_counted() -> None:
    window, clock = limiter()
    assert allowed(window, "alice", 3) == 3
    for _ in range(59):
        clock.now += 1
        assert not window.admit("alice").allowed
    clock.now += 1
    assert window.admit("alice").allowed


def test_who_waits_as_long_as_told_is_admitted() -> None:
    window, clock = limiter()
    allowed(window, "alice", 3)
    refused = window.admit("alice")
    clock.now += refused.reset_s
    assert window.admit("alice").allowed


def test_a_request_that_is_given_back_is_free_again() -> None:
    window, _ = limiter()
    allowed(window, "alice", 3)
    window.take_back("alice")
    window.take_back("nobody")
    assert allowed(window, "alice", 3) == 1


def test_clients_of_the_last_minute_only_are_remembered() -> None:
    window, clock = limiter()
    for number in range(10_000):
        window.admit(f"client-{number}")
    clock.now += 61
    window.admit("alice")
    assert window.clients == 1


def test_the_number_of_clients_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_CLIENTS", 100)
    window, _ = limiter()
    for number in range(500):
        window.admit(f"client-{number}")
        window.admit("alice")
    assert window.clients <= 101
    assert allowed(window, "alice", 3) == 0
