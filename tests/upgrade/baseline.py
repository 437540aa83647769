"""Released schemas, as they were: what an upgrade starts from.

`baseline/schema-NNNN.sql.xz` is the output of `flowfabric sql --with-test-clock` of a release whose last
migration has that number, and `schema-NNNN.contract.json` is what its clients rely on. They are made once, by
`python -m tests.upgrade.baseline` at the release, and never changed: later releases add theirs.
"""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from pathlib import Path

import psycopg

from flowfabric_client.install import SqlSources, migrate, render_sql
from tests.support.cluster import Cluster
from tests.upgrade.contract import Contract, read_contract

DIRECTORY = Path(__file__).with_name("baseline")


@dataclass(frozen=True)
class Baseline:
    """One released schema."""

    schema_version: int

    @property
    def sql_path(self) -> Path:
        return DIRECTORY / f"schema-{self.schema_version:04}.sql.xz"

    @property
    def contract_path(self) -> Path:
        return DIRECTORY / f"schema-{self.schema_version:04}.contract.json"

    @property
    def contract(self) -> Contract:
        """What clients of that release rely on."""
        return dict(json.loads(self.contract_path.read_text(encoding="utf-8")))

    def install(self, dsn: str) -> None:
        """Install it in an empty database."""
        with psycopg.connect(dsn) as connection:
            connection.execute(lzma.decompress(self.sql_path.read_bytes()))


def baselines() -> list[Baseline]:
    """All released schemas, oldest first."""
    return [Baseline(int(path.name[7:11])) for path in sorted(DIRECTORY.glob("schema-*.sql.xz"))]


def keep_current() -> Baseline:
    """Keep the schema of this checkout as a released one."""
    sources = SqlSources.shipped()
    baseline = Baseline(sources.migrations()[-1].number)
    if baseline.sql_path.exists():
        raise SystemExit(f"{baseline.sql_path.name} is there already, and a released schema never changes.")
    baseline.sql_path.write_bytes(lzma.compress(render_sql(with_test_clock=True).encode(), preset=9))
    cluster = Cluster.start()
    try:
        with cluster.database() as dsn:
            migrate(dsn)
            with psycopg.connect(dsn) as connection:
                contract = read_contract(connection)
    finally:
        cluster.stop()
    lines = (f"{json.dumps(name)}: {json.dumps(function)}" for name, function in contract.items())
    baseline.contract_path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return baseline


if __name__ == "__main__":
    print(f"kept {keep_current().sql_path.name}")
