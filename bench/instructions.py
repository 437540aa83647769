"""How many instructions does a call take? `python -m bench.instructions`.

A server runs under callgrind, which counts the instructions of each backend from one answer to the next. They
repeat to about one percent, whatever else the machine is doing, where times do not: so this tells whether a
change of a function made it cheaper. It says nothing of waiting, caches and the disk; `python -m bench` does.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from bench.systems.adapter import PAYLOAD, Connection, connect
from bench.systems.flowfabric import CLAIM, COMPLETE, COMPLETE_MANY, CREATE, CREATE_MANY
from flowfabric_client import install
from flowfabric_client.dev import DevServerError, start_server

# Vacuum and checkpoints would change what the next call finds.
SETTINGS = {"fsync": "off", "autovacuum": "off", "shared_buffers": "256MB", "checkpoint_timeout": "1h"}
RENEW = "select outcome from flowfabric.ff_renew_lease(%s, %s, %s, %s)"
# Callgrind makes a call fifty times as long: nearly every claim would come upon a floor that is to be moved.
SELDOM_MOVED_FLOORS = "select flowfabric.ff_set_setting('claim_floor_recheck_ms', 600000)"
OFTEN_MOVED_FLOORS = "select flowfabric.ff_set_setting('claim_floor_recheck_ms', 1000)"
# A claim after this time finds a floor that is due. Few of them move it, which a seed makes repeatable.
QUIET_S = 0.3
QUIET_REPEATS = 32
QUIET = ("claim, quiet lane", "claim, nothing waits")
SEED = "select setseed(0.5)"
BIN_VARIABLE = "FLOWFABRIC_PG_BIN"

# Every function of a backend is compiled and every statement planned for good after so many calls.
WARM_UP = 12

Step = Callable[[Any], Any]


def wrapper(program: Path, output: Path) -> str:
    """A stand-in for the server program; what asks it for its version gets the program itself."""
    return (
        "#!/bin/sh\n"
        'case "$*" in\n'
        f"*-D*) exec valgrind --tool=callgrind --dump-before=ReadyForQuery"
        f' --callgrind-out-file={output}/calls.%p --log-file=/dev/null {program} "$@" ;;\n'
        f'*) exec {program} "$@" ;;\n'
        "esac\n"
    )


def total(dump: str) -> int:
    """The instructions of a dump."""
    for line in dump.splitlines():
        if line.startswith(("summary:", "totals:")):
            return int(line.split()[1])
    raise ValueError("callgrind wrote no sum")


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextmanager
def counted_server(directory: Path) -> Iterator[str]:
    """A server under callgrind with the engine in it; the connection string. Its dumps go to `directory`."""
    data, programs = directory / "data", directory / "bin"
    with start_server(data_dir=data, keep=True, provider="local", settings=SETTINGS) as plain:
        install.migrate(plain.dsn())
        with connect(plain.dsn()) as connection:
            connection.execute(SELDOM_MOVED_FLOORS)
        bin_dir = plain.bin_dir
    if bin_dir is None:
        raise DevServerError("the server's programs are not on this machine")
    programs.mkdir()
    (programs / "initdb").symlink_to(bin_dir / "initdb")
    (programs / "postgres").write_text(wrapper(bin_dir / "postgres", directory), encoding="utf-8")
    (programs / "postgres").chmod(0o755)
    with (
        _environment(BIN_VARIABLE, str(programs)),
        start_server(data_dir=data, keep=True, provider="local", settings=SETTINGS) as server,
    ):
        yield server.dsn()


class Counter:
    """The calls of one connection, and what the dump of each says."""

    def __init__(self, connection: Connection, directory: Path) -> None:
        self._pattern = f"calls.{connection.info.backend_pid}.*"
        self._directory = directory

    def measure(
        self, steps: dict[str, Step], repeats: int, average: Callable[[list[int]], float] = statistics.median
    ) -> dict[str, float]:
        """Take the steps in turn, each with what the last one returned; the average instructions of each."""
        samples: dict[str, list[int]] = {name: [] for name in steps}
        for repeat in range(WARM_UP + repeats):
            value = None
            for name, step in steps.items():
                value = step(value)
                if repeat >= WARM_UP:
                    samples[name].append(self._last())
        return {name: average(numbers) for name, numbers in samples.items()}

    def _last(self) -> int:
        dumps = list(self._directory.glob(self._pattern))
        newest = max(dumps, key=lambda dump: int(dump.name.rpartition(".")[2]))
        found = total(newest.read_text(encoding="utf-8"))
        for dump in dumps:
            if dump != newest:
                dump.unlink()
        return found


def _steps(connection: Connection, batch: int) -> Iterator[tuple[int, dict[str, Step]]]:
    """The calls of one cycle: one execution at a time, and in batches."""
    payload = PAYLOAD.encode()

    def complete(claimed: list[Any]) -> None:
        outcomes = connection.execute(COMPLETE, claimed[0][:4]).fetchall()
        assert outcomes == [("completed",)]

    def complete_many(claimed: list[Any]) -> None:
        arrays = [list(column) for column in zip(*(job[:4] for job in claimed), strict=True)]
        outcomes = connection.execute(COMPLETE_MANY, arrays).fetchall()
        assert outcomes == [("completed",)] * batch

    def renew(claimed: list[Any]) -> list[Any]:
        connection.execute(RENEW, claimed[0][:4])
        return claimed

    yield (
        1,
        {
            "create": lambda _: connection.execute(CREATE, [payload]),
            "claim": lambda _: connection.execute(CLAIM, [1]).fetchall(),
            "renew": renew,
            "complete": complete,
        },
    )
    yield (
        batch,
        {
            "create": lambda _: connection.execute(CREATE_MANY, {"count": batch, "payload": payload}),
            "claim": lambda _: connection.execute(CLAIM, [batch]).fetchall(),
            "complete": complete_many,
        },
    )


def _quiet_steps(connection: Connection) -> dict[str, Step]:
    """One cycle in a lane that was left alone for a while, and a claim that finds nothing."""
    payload = PAYLOAD.encode()

    def claim_later(_: Any) -> list[Any]:
        time.sleep(QUIET_S)
        return connection.execute(CLAIM, [1]).fetchall()

    return {
        "create": lambda _: connection.execute(CREATE, [payload]),
        "claim, quiet lane": claim_later,
        "complete": lambda claimed: connection.execute(COMPLETE, claimed[0][:4]),
        "claim, nothing waits": lambda _: connection.execute(CLAIM, [1]).fetchall(),
    }


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--batch", type=click.IntRange(2, 100), default=100, show_default=True, help="Items per batch.")
@click.option("--repeats", type=click.IntRange(1, 50), default=5, show_default=True)
@click.option("--sql", help="Statements to run after the installation, to try something out.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def main(*, batch: int, repeats: int, sql: str | None, as_json: bool) -> None:
    """Count the instructions that the server takes for each call of a cycle."""
    if shutil.which("valgrind") is None:
        raise click.ClickException("valgrind is not installed: apt-get install valgrind")
    console = Console(width=None if sys.stdout.isatty() else 100)
    found: dict[int, dict[str, float]] = {}
    directory = Path(tempfile.mkdtemp(prefix="flowfabric-instructions-"))
    # The server's account, which is another one than root, writes here too.
    directory.chmod(0o777)
    try:
        with (
            console.status("starting a server under callgrind") as status,
            counted_server(directory) as dsn,
            connect(dsn) as connection,
        ):
            if sql:
                connection.execute(sql.encode(), prepare=False)
            counter = Counter(connection, directory)
            for size, steps in _steps(connection, batch):
                status.update(f"counting calls of {size}")
                counts = counter.measure(steps, repeats)
                found[size] = {name: count / size for name, count in counts.items()}
            status.update("counting calls in a quiet lane")
            connection.execute(OFTEN_MOVED_FLOORS)
            connection.execute(SEED)
            quiet = counter.measure(_quiet_steps(connection), QUIET_REPEATS, statistics.mean)
            found[1] |= {name: quiet[name] for name in QUIET}
    except DevServerError as error:
        raise click.ClickException(str(error)) from error
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if as_json:
        click.echo(json.dumps(found))
        return
    table = Table("thousand instructions", *(f"{size} at a time, each" for size in found))
    for name in ("create", "claim", *QUIET, "renew", "complete"):
        table.add_row(name, *(_thousands(counts.get(name)) for counts in found.values()))
    cycles = [sum(counts[name] for name in ("create", "claim", "complete")) for counts in found.values()]
    table.add_row("create, claim, complete", *map(_thousands, cycles))
    console.print(table)


def _thousands(count: float | None) -> str:
    return "" if count is None else f"{count / 1000:,.0f}"


if __name__ == "__main__":
    main()
