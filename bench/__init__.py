"""The benchmark: FlowFabric and its peers, side by side on one private server. See README.md."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "bench"
