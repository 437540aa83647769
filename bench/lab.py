"""One measurement: a fresh database with one system in it, and the host of its clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.hosts import HostProcess
from bench.server import Activity, BenchServer, Counters

Metrics = dict[str, float]


@dataclass(frozen=True)
class Run:
    """What the clients of one task report, and what the server used meanwhile."""

    outcomes: list[dict[str, Any]]
    used: Counters

    @property
    def operations(self) -> int:
        """Jobs completed, by all clients."""
        return sum(int(outcome["operations"]) for outcome in self.outcomes)

    @property
    def per_second(self) -> float:
        """Jobs per second, all clients together."""
        return sum(float(outcome["operations"]) / float(outcome["seconds"]) for outcome in self.outcomes)

    def costs(self) -> Metrics:
        """CPU and WAL per job."""
        done = max(self.operations, 1)
        costs = {
            "client_cpu_us": sum(outcome["client_cpu"] for outcome in self.outcomes) * 1e6 / done,
            "wal_bytes": self.used.wal_bytes / done,
        }
        if self.used.cpu_seconds is not None:
            costs["server_cpu_us"] = self.used.cpu_seconds * 1e6 / done
        return costs


@dataclass(frozen=True)
class Lab:
    """What a scenario measures with."""

    server: BenchServer
    host: HostProcess
    database: str
    reference: str | None = None

    @property
    def dsn(self) -> str:
        """How to connect to the database of this measurement."""
        return self.server.dsn(self.database)

    @property
    def reference_dsn(self) -> str:
        """How to connect to the database that a seeded one is compared with."""
        if self.reference is None:
            raise LookupError("this case has no reference database")
        return self.server.dsn(self.reference)

    def run(self, task: str, clients: int = 1, **arguments: Any) -> Run:
        """Let clients do a task, all at once, and read the server's counters around it."""
        self.host.ask("prepare", dsn=self.dsn, task=task, clients=clients, arguments=arguments)
        before = self.server.counters(self.database)
        outcomes = self.host.ask("go")
        used = self.server.counters(self.database).since(before)
        self.host.ask("end")
        return Run(outcomes, used)

    def activity(self) -> Activity:
        """What has happened in the database so far."""
        return self.server.activity(self.database)
