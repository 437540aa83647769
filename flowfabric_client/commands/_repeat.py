"""Commands that go on until they are told to stop, also when the server goes away for a while."""

from __future__ import annotations

import time
from collections.abc import Callable

from flowfabric_client import errors
from flowfabric_client.commands._engine import Engine, is_connection_loss

_LONGEST_PAUSE_S = 30.0


def keep_going(
    engine: Engine,
    step: Callable[[], float | None],
    on_loss: Callable[[errors.FlowFabricError], None],
    *,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Repeat a step until it returns None; what it returns is the pause before the next one, in seconds.

    A lost connection is reported and made again, ever more slowly. The first connection must succeed: an
    address that was wrong from the beginning ends the command.
    """
    engine.client.ping()
    losses = 0
    while True:
        try:
            seconds = step()
        except errors.FlowFabricError as error:
            if not is_connection_loss(error):
                raise
            engine.close()
            on_loss(error)
            losses += 1
            pause(min(2.0 ** (losses - 1), _LONGEST_PAUSE_S))
            continue
        losses = 0
        if seconds is None:
            return
        pause(seconds)
