"""How much a random search does, and from which seed: little in the normal suite, more with `make fuzz`."""

import os

SEED = int(os.environ.get("FLOWFABRIC_FUZZ_SEED", "1"))
ROUNDS = int(os.environ.get("FLOWFABRIC_FUZZ_ROUNDS", "20"))
