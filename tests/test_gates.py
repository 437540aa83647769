"""The gates of tools/lint, each as a test, so that one command runs all that CI runs."""

from __future__ import annotations

import subprocess

import pytest

from tests.support.cluster import REPOSITORY

LINT = REPOSITORY / "tools/lint"


def gates() -> list[str]:
    return subprocess.run([LINT, "--list"], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.gate
@pytest.mark.parametrize("gate", gates())
def test_the_sources_pass_the_gate(gate: str) -> None:
    done = subprocess.run(
        [LINT, gate], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode != 0:
        pytest.fail(done.stdout, pytrace=False)


@pytest.mark.gate
def test_an_unknown_gate_is_refused() -> None:
    done = subprocess.run([LINT, "rust"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "there is no gate 'rust'" in done.stderr
