from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinesis_source.aws.service_clock import ServiceClock
from kinesis_source.testing.clock import DEFAULT_START_MS, ManualClock

HOUR_MS = 3_600_000


def date_header(ms: int) -> str:
    return formatdate(ms // 1000, usegmt=True)


def test_nothing_is_known_before_the_first_answer() -> None:
    assert ServiceClock(ManualClock()).now_ms() is None


def test_the_machine_may_be_hours_off() -> None:
    clock = ManualClock()
    service = ServiceClock(clock)
    service.observe(date_header(DEFAULT_START_MS - 5 * HOUR_MS))
    clock.advance(250)
    assert service.now_ms() == pytest.approx(DEFAULT_START_MS - 5 * HOUR_MS + 250, abs=1)


@given(
    skew_ms=st.integers(-24 * HOUR_MS, 24 * HOUR_MS),
    steps=st.lists(
        st.tuples(
            st.one_of(st.integers(0, 3000), st.integers(0, 2 * HOUR_MS)),  # passes
            st.integers(0, 800),  # passes between the service's answer and its arrival
            st.sampled_from([0, 0, 0, 1, HOUR_MS]),  # the service's clock jumps
            st.booleans(),  # an answer comes
        ),
        max_size=40,
    ),
)
def test_never_ahead_never_back(skew_ms: int, steps: list[tuple[int, int, int, bool]]) -> None:
    clock = ManualClock()
    service = ServiceClock(clock)
    last = 0
    for passes, latency, jump, answers in steps:
        clock.advance(passes)
        skew_ms += jump
        if answers:
            header = date_header(clock.now_ms() + skew_ms)
            clock.advance(latency)
            service.observe(header)
        estimate = service.now_ms()
        if estimate is None:
            continue
        assert last <= estimate <= clock.now_ms() + skew_ms
        if answers:
            assert estimate > clock.now_ms() + skew_ms - latency - 1002
        last = estimate


def test_many_answers_come_within_milliseconds() -> None:
    clock = ManualClock(DEFAULT_START_MS + 637)
    service = ServiceClock(clock)
    for _ in range(200):
        clock.advance(7)
        service.observe(date_header(clock.now_ms()))
    estimate = service.now_ms()
    assert estimate is not None
    assert clock.now_ms() - 8 <= estimate <= clock.now_ms()


def test_the_best_answer_counts_not_the_last() -> None:
    clock = ManualClock()
    service = ServiceClock(clock)
    service.observe(date_header(clock.now_ms()))  # on the second
    clock.advance(1990)
    service.observe(date_header(clock.now_ms()))  # 990 ms after it
    assert service.now_ms() == pytest.approx(DEFAULT_START_MS + 1990, abs=1)


def test_it_does_not_go_back_when_the_best_answer_is_forgotten() -> None:
    clock = ManualClock()
    service = ServiceClock(clock)
    service.observe(date_header(clock.now_ms()))
    clock.advance(300_990)
    service.observe(date_header(clock.now_ms()))
    clock.advance(300_000)
    before = service.now_ms()
    assert before == pytest.approx(clock.now_ms(), abs=1)
    service.observe(date_header(clock.now_ms()))
    assert service.now_ms() == before
    clock.advance(2000)
    assert service.now_ms() == pytest.approx(clock.now_ms() - 990, abs=1)


def test_a_jump_of_the_service_is_followed_at_once() -> None:
    clock = ManualClock()
    service = ServiceClock(clock)
    service.observe(date_header(DEFAULT_START_MS))
    service.observe(date_header(DEFAULT_START_MS + 30 * HOUR_MS))
    assert service.now_ms() == DEFAULT_START_MS + 30 * HOUR_MS


def test_a_fast_monotonic_clock_does_not_run_ahead_for_ever() -> None:
    """A machine that gains 0.05 % would be 43 s ahead after a day."""
    clock = ManualClock()
    service = ServiceClock(clock)
    true_ms = float(DEFAULT_START_MS)
    for _ in range(24 * 60):
        true_ms += 60_000 / 1.0005
        clock.advance(60_000)
        service.observe(date_header(int(true_ms)))
    estimate = service.now_ms()
    assert estimate is not None
    assert estimate - true_ms <= 2 * 300_000 * 0.0005


@pytest.mark.parametrize("header", ["", "soon", "Thu, 99 Jan 2026 00:00:05 GMT", "0", "\x00"])
def test_a_malformed_header_is_ignored(header: str) -> None:
    service = ServiceClock(ManualClock())
    service.observe(header)
    assert service.now_ms() is None
    service.observe(date_header(DEFAULT_START_MS))
    service.observe(header)
    assert service.now_ms() == DEFAULT_START_MS
