"""What does a worker that was believed dead get away with? `python -m bench.zombies`.

In each system a worker takes a job for a second and stalls past it. Then it finishes the job after all: in
one case before anybody else took it, in the other after another worker did, which finishes it as well.
"""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import click
import psycopg
from psycopg.rows import TupleRow
from rich.console import Console
from rich.table import Table

from bench import peers
from bench.hosts import HostError, HostProcess
from bench.server import BenchServer
from bench.systems import SYSTEMS
from flowfabric_client.dev import DevServerError

Connection = psycopg.Connection[TupleRow]
Held = tuple[Any, ...]
LEASE_SECONDS = 1
PATIENCE = 20.0


class Subject(ABC):
    """One system: how a job is made, taken for a second, taken over, and finished."""

    system: ClassVar[str]

    @abstractmethod
    def create(self, connection: Connection) -> None:
        """Make one job."""

    @abstractmethod
    def take(self, connection: Connection) -> Held | None:
        """Take the job for a second."""

    @abstractmethod
    def take_over(self, connection: Connection) -> Held | None:
        """Take it from a worker that is believed dead; None while that is not possible yet."""

    @abstractmethod
    def finish(self, connection: Connection, held: Held) -> bool:
        """Finish it; False, or an error of the database, if that is refused."""


class FlowFabric(Subject):
    system = "flowfabric"
    fence = "execution_id, lease_id, lease_epoch, attempt_id"
    arguments = f"'{{default}}', 'bench', 'bench', p_lease_ttl_ms => {LEASE_SECONDS * 1000}"

    def create(self, connection: Connection) -> None:
        connection.execute("select flowfabric.ff_create_execution('bench')")

    def take(self, connection: Connection) -> Held | None:
        return connection.execute(
            f"select {self.fence} from flowfabric.ff_claim_next({self.arguments})"
        ).fetchone()

    def take_over(self, connection: Connection) -> Held | None:
        return connection.execute(
            f"select {self.fence} from flowfabric.ff_reclaim_next({self.arguments})"
        ).fetchone()

    def finish(self, connection: Connection, held: Held) -> bool:
        connection.execute("select flowfabric.ff_complete_execution(%s, %s, %s, %s)", held)
        return True


class Absurd(Subject):
    system = "absurd"

    def create(self, connection: Connection) -> None:
        options = '{"max_attempts": 5, "retry_strategy": {"kind": "none"}}'
        connection.execute("select absurd.spawn_task('bench', 'bench', 'null', %s::jsonb)", [options])

    def take(self, connection: Connection) -> Held | None:
        return connection.execute(
            "select run_id from absurd.claim_task('bench', 'bench', %s, 1)", [LEASE_SECONDS]
        ).fetchone()

    take_over = take

    def finish(self, connection: Connection, held: Held) -> bool:
        connection.execute("select absurd.complete_run('bench', %s, 'null')", held)
        return True


class Procrastinate(Subject):
    """It has no leases: a job of a worker that stopped its heartbeats is put back by the application."""

    system = "procrastinate"

    def create(self, connection: Connection) -> None:
        connection.execute(
            "select procrastinate_defer_jobs_v1(array["
            "row('default', 'bench', 0, null, null, '{}'::jsonb, null)::procrastinate_job_to_defer_v1])"
        )

    def take(self, connection: Connection) -> Held | None:
        return connection.execute(
            "select j.id from procrastinate_register_worker_v1() as w,"
            " procrastinate_fetch_job_v2(null, w.worker_id) as j where j.id is not null"
        ).fetchone()

    def take_over(self, connection: Connection) -> Held | None:
        connection.execute(
            "select procrastinate_retry_job_v2(id, now(), null, null, null) from procrastinate_jobs"
            " where status = 'doing'"
        )
        return self.take(connection)

    def finish(self, connection: Connection, held: Held) -> bool:
        connection.execute("select procrastinate_finish_job_v1(%s, 'succeeded', false)", held)
        return True


class Pgmq(Subject):
    system = "pgmq"

    def create(self, connection: Connection) -> None:
        connection.execute("select pgmq.send('bench', '{}'::jsonb)")

    def take(self, connection: Connection) -> Held | None:
        return connection.execute("select msg_id from pgmq.read('bench', %s, 1)", [LEASE_SECONDS]).fetchone()

    take_over = take

    def finish(self, connection: Connection, held: Held) -> bool:
        row = connection.execute("select pgmq.archive('bench', %s::bigint)", held).fetchone()
        return bool(row and row[0])


SUBJECTS: tuple[Subject, ...] = (FlowFabric(), Absurd(), Procrastinate(), Pgmq())


def _attempt(subject: Subject, connection: Connection, held: Held) -> str:
    try:
        return "accepted" if subject.finish(connection, held) else "refused"
    except psycopg.Error as error:
        return f"refused: {error.diag.message_primary} ({error.sqlstate})"


def _take_over(subject: Subject, connection: Connection) -> Held:
    deadline = time.monotonic() + PATIENCE
    while (held := subject.take_over(connection)) is None:
        if time.monotonic() > deadline:
            raise HostError("nobody could take the job over")
        time.sleep(0.1)
    return held


def _stall(subject: Subject, connection: Connection) -> Held:
    subject.create(connection)
    held = subject.take(connection)
    if held is None:
        raise HostError("the job could not be taken")
    time.sleep(LEASE_SECONDS + 0.3)
    return held


def examine(subject: Subject, dsn: str) -> tuple[str, str, str]:
    """What became of a late answer before and after somebody took over, and of the new owner's answer."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        taken = _stall(subject, connection)
        owner = _take_over(subject, connection)
        late = _attempt(subject, connection, taken)
        owners = _attempt(subject, connection, owner)
        alone = _attempt(subject, connection, _stall(subject, connection))
    return alone, late, owners


@click.command()
def main() -> None:
    """Show what a stalled worker's late answer does in this engine and in three peers."""
    console = Console(width=None if sys.stdout.isatty() else 140)
    table = Table("system", "late, nobody took over", "late, another has it", "then the owner's answer")
    with console.status("starting") as status:
        unavailable = peers.install({"peers"}, status.update)
        try:
            server = BenchServer()
        except DevServerError as error:
            raise click.ClickException(str(error)) from error
        with server:
            for subject in SUBJECTS:
                system = SYSTEMS[subject.system]
                status.update(f"stalling a worker of {system.name}")
                try:
                    if system.runtime in unavailable:
                        raise HostError(unavailable[system.runtime])  # noqa: TRY301
                    with HostProcess(system) as host:
                        host.ask("install", dsn=server.create_template(system.name))
                    table.add_row(system.name, *examine(subject, server.dsn(system.name)))
                except (HostError, psycopg.Error) as error:
                    table.add_row(system.name, f"failed: {error}")
    console.print(table)


if __name__ == "__main__":
    main()
