"""The manual clock, and the pytest fixture as users get it."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kinesis_source.testing import ManualClock

ROOT = Path(__file__).parents[3]


def test_sleeping_moves_the_clock_and_returns_at_once() -> None:
    clock = ManualClock(1_000)
    clock.sleep(600)
    clock.sleep(0.0005)
    clock.sleep(-1)
    clock.advance(250)
    assert clock.now_ms() == 601_250
    assert clock.monotonic() == pytest.approx(601.2505)


def test_a_clock_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="does not go back"):
        ManualClock().advance(-1)


def test_sleeps_of_several_threads_add_up() -> None:
    clock = ManualClock(0)

    def sleep_often() -> None:
        for _ in range(1_000):
            clock.sleep(0.001)

    threads = [threading.Thread(target=sleep_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clock.now_ms() == 4_000


def test_the_plugin_gives_a_running_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    (tmp_path / "test_mine.py").write_text(
        "def test_mine(local_kinesis):\n"
        "    local_kinesis.create_stream('orders', shards=4)\n"
        "    assert len(local_kinesis.client().list_shards(StreamName='orders')['Shards']) == 4\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "kinesis_source.testing.pytest_plugin"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
