"""What the demo prints: plain lines for the stages, and one live line between them."""

from __future__ import annotations

from typing import TextIO

from kinesis_source.clock import Clock

#: Between two live lines where the output is not a terminal and nothing can be rewritten.
SECONDS_BETWEEN_LINES = 5.0


class Console:
    def __init__(self, out: TextIO, clock: Clock) -> None:
        self._out = out
        self._clock = clock
        self._started = clock.monotonic()
        self._live_width = 0
        self._last_line = self._started

    def stage(self, text: str) -> None:
        """A new stage of the story, with the time since the start."""
        self.say("")
        self.say(f"[{self._elapsed()}] {text}")

    def say(self, text: str) -> None:
        self._end_live_line()
        self._out.write(text + "\n")
        self._out.flush()

    def live(self, text: str) -> None:
        """Replaces the live line; off a terminal prints one every few seconds."""
        line = f"  {self._elapsed()}  {text}"
        if self._out.isatty():
            self._out.write("\r" + line.ljust(self._live_width))
            self._out.flush()
            self._live_width = len(line)
        elif self._clock.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = self._clock.monotonic()
            self.say(line)

    def _end_live_line(self) -> None:
        if self._live_width:
            self._out.write("\n")
            self._live_width = 0

    def _elapsed(self) -> str:
        minutes, seconds = divmod(int(self._clock.monotonic() - self._started), 60)
        return f"{minutes}:{seconds:02}"
