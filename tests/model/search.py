"""How far the tests of this folder search.

A run is the same every time. To search further, from another start each time:

    FLOWFABRIC_MODEL_SEED=random FLOWFABRIC_MODEL_EFFORT=50 pytest tests/model

A failure names its seed and prints the shortest sequence of calls that still fails.
"""

from __future__ import annotations

import os
import random

from hypothesis import HealthCheck, Phase, note, settings

_SEED = os.environ.get("FLOWFABRIC_MODEL_SEED", "3")
SEED = random.randrange(2**32) if _SEED == "random" else int(_SEED)
_EFFORT = int(os.environ.get("FLOWFABRIC_MODEL_EFFORT", "1"))


def searching(examples: int, *, steps: int = 1) -> settings:
    """The settings of a search over so many examples, times the effort that the environment asks for."""
    return settings(
        max_examples=examples * _EFFORT,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        # Without explaining, which takes longer than shrinking: the calls speak for themselves.
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


def note_seed() -> None:
    """Let a failure of the present example name the seed it was found from."""
    note(f"FLOWFABRIC_MODEL_SEED={SEED}")
