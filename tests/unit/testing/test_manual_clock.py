"""Code that waits until a time gets there: the manual clock rounds no sleep away."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinesis_source.testing import ManualClock


@pytest.mark.parametrize("seconds", [1e-12, 1e-10, 4e-7, 5e-7, 0.0000011])
def test_a_sleep_however_short_moves_the_clock(seconds: float) -> None:
    clock = ManualClock()
    before = clock.monotonic()
    clock.sleep(seconds)
    assert clock.monotonic() > before


@given(st.floats(0, 1e6), st.integers(0, 10**13))
def test_sleeping_until_a_time_takes_one_sleep_or_two(wait_s: float, now_ms: int) -> None:
    """Two, as the difference of two floats may round down."""
    clock = ManualClock(now_ms)
    due = clock.monotonic() + wait_s
    for _ in range(2):
        clock.sleep(due - clock.monotonic())
    assert clock.monotonic() >= due
