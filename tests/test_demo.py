"""The demo: what a new user sees first."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path


def test_the_demo_runs_and_leaves_nothing_behind() -> None:
    def leftovers() -> set[Path]:
        return set(Path(tempfile.gettempdir()).glob("flowfabric-demo-*"))

    before = leftovers()
    done = subprocess.run(
        [sys.executable, "-m", "flowfabric_client", "demo", "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    summary = json.loads(done.stdout)
    assert {name: summary[name] for name in ("completed", "retried", "taken_over", "refused")} == {
        "completed": 20,
        "retried": 1,
        "taken_over": 1,
        "refused": ["stale_lease"],
    }
    assert leftovers() <= before
