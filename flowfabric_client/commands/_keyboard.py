"""Single keys from a terminal, for a screen that is drawn again and again."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

QUIT = "q"

ReadKey = Callable[[float], str | None]
"""Waits at most so many seconds for a key, and returns it."""


@contextmanager
def keys() -> Iterator[ReadKey]:
    """Read keys as they are pressed; where there is no keyboard to read, only wait."""
    try:
        import termios  # noqa: PLC0415 - POSIX only
        import tty  # noqa: PLC0415
    except ImportError:
        yield _wait
        return
    try:
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
    except (OSError, ValueError, termios.error):
        yield _wait
        return
    tty.setcbreak(descriptor)
    try:
        yield _read
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _wait(seconds: float) -> None:
    time.sleep(seconds)


def _read(seconds: float) -> str | None:
    readable, _, _ = select.select([sys.stdin], [], [], seconds)
    # A terminal that is gone has nothing more to say: whoever sat there has left.
    return (sys.stdin.read(1) or QUIT) if readable else None
