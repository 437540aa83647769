"""The programs of examples/, as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from flowfabric_client.testing import FlowFabric
from tests.support.cluster import REPOSITORY

EXAMPLES = REPOSITORY / "examples"
#: Far above what any of them takes on a slow machine; reached only when a test has failed.
DEADLINE_S = 60

Start = Callable[..., subprocess.Popen[str]]
Run = Callable[..., str]
Query = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def start(flowfabric: FlowFabric) -> Iterator[Start]:
    """Starts a program on the test's database; it is killed if it is still there after the test."""
    processes = []

    def factory(
        *command: str | Path, cwd: Path = EXAMPLES, dsn: str = flowfabric.dsn, **variables: str
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            _program(command),
            cwd=cwd,
            env={**os.environ, "FLOWFABRIC_DSN": dsn, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        processes.append(process)
        return process

    yield factory
    for process in processes:
        with process:
            process.kill()


@pytest.fixture
def query(flowfabric: FlowFabric) -> Iterator[Query]:
    """Reads rows of the test's database."""
    with psycopg.connect(flowfabric.dsn, autocommit=True) as connection:
        yield lambda statement: connection.execute(statement.encode()).fetchall()


@pytest.fixture
def run(start: Start) -> Run:
    """Runs a program to its end, which must be a good one, and returns what it printed."""

    def factory(*command: str | Path, **options: str) -> str:
        return output_of(start(*command, **options))

    return factory


def output_of(process: subprocess.Popen[str]) -> str:
    """What a program has printed when it has ended well."""
    printed, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, printed
    return printed


def _program(command: Sequence[str | Path]) -> Sequence[str | Path]:
    return [sys.executable, *command] if str(command[0]).endswith(".py") else command
