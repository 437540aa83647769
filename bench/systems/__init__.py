"""The systems that are measured: what each is called, and what its client processes run on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Runtime = Literal["own", "peers", "node"]


@dataclass(frozen=True)
class System:
    """One system. `module` is bench/systems/<module>.py, or node/<module>.mjs for the runtime `node`."""

    name: str
    module: str
    runtime: Runtime
    what: str
    options: tuple[tuple[str, str], ...] = ()
    # The scenarios that a variant of a system is of interest in; empty means all.
    only_in: tuple[str, ...] = ()


FLOOR = "floor"

SYSTEMS = {
    system.name: system
    for system in (
        System(FLOOR, "floor", "own", "a bare table: INSERT, UPDATE ... SKIP LOCKED, UPDATE"),
        System("flowfabric", "flowfabric", "own", "this engine, its SQL functions"),
        System(
            "flowfabric-quiet",
            "flowfabric",
            "own",
            "this engine with the setting lease_events off",
            options=(("lease_events", "0"),),
            only_in=("single", "batch", "worker", "footprint"),
        ),
        System("absurd", "absurd", "peers", "durable tasks in PL/pgSQL"),
        System("procrastinate", "procrastinate", "peers", "task queue in SQL functions"),
        System("pgmq", "pgmq", "peers", "message queue in SQL functions"),
        System("pgqueuer", "pgqueuer", "peers", "job queue, asyncpg"),
        System("dbos", "dbos", "peers", "durable workflows, SQLAlchemy"),
        System("chancy", "chancy", "peers", "job queue, psycopg"),
        System("awa", "awa", "peers", "job queue, Rust"),
        System("graphile-worker", "graphile", "node", "job queue, Node"),
        System("pg-boss", "pgboss", "node", "job queue, Node"),
    )
}
