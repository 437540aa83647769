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
    assert summary["killed_worker"] in ("ada", "grace", "barbara")
    assert summary["taken_over"] >= 1
    # Whoever took over may have finished before the stale worker answers.
    assert summary["refused"] in (["stale_lease (ZS001)"], ["execution_not_active (ZC011)"])
    assert 0 < summary["tokens_used"] <= summary["token_limit"]
    assert summary["articles"] == 1
    assert summary["approved_by"] == "editor"
    assert summary["drained_exit_codes"] == [0, 0]
    assert summary["broken_invariants"] == 0
    ends = summary["by_state"]
    assert ends.keys() <= {"completed", "cancelled", "failed"}
    assert ends["completed"] >= 300 + 9
    assert leftovers() <= before
