"""A small engine of its own: sources that a test can change, with the real roles, privileges and seal."""

from __future__ import annotations

import shutil
from pathlib import Path

from flowfabric_client.install import SqlSources

ENGINE_TABLES = """\
-- The tables that the installer itself reads and writes, as in the real first migration.
create schema if not exists flowfabric;
create table if not exists flowfabric.ff_migration_annotation (
    version integer primary key,
    name text not null,
    applied_at_ms bigint not null,
    backward_compatible boolean not null
);
create table if not exists flowfabric.ff_partition_config (
    singleton_lock boolean primary key default true check (singleton_lock),
    ff_version text not null default '',
    library_digest text
);
insert into flowfabric.ff_partition_config default values on conflict do nothing;
create table if not exists flowfabric.ff_setting (name text primary key, value bigint not null);
"""

# A table whose constraint calls a function that calls another one, as ff_exec_core does.
THING_TABLE = """\
-- depends: 0001.engine
create or replace function flowfabric._ff_largest_size()
returns integer language sql immutable as 'select 100';
create or replace function flowfabric._ff_size_is_legal(p_size integer) returns boolean
language plpgsql immutable as $$
begin
    return p_size <= flowfabric._ff_largest_size();
end;
$$;
create table flowfabric.ff_thing (
    thing_id integer primary key,
    size integer not null,
    constraint ff_thing_size_is_legal check (flowfabric._ff_size_is_legal(size))
);
comment on table flowfabric.ff_thing is 'A thing; it has a size.';
insert into flowfabric.ff_thing (thing_id, size) values (1, 10);
"""

SIZE_FUNCTION = """\
-- ff_size: how large a thing is.
create or replace function flowfabric.ff_size(p_thing_id integer)
returns integer
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return (select t.size from flowfabric.ff_thing as t where t.thing_id = p_thing_id);
end;
$$;

comment on function flowfabric.ff_size(integer) is 'How large a thing is.';
grant execute on function flowfabric.ff_size(integer) to flowfabric_reader;
"""

NOW_FUNCTION = """\
create or replace function flowfabric.ff_now_ms() returns bigint language sql volatile as 'select 0::bigint';
"""

TEST_CLOCK_FUNCTION = """\
create or replace function flowfabric.ff_now_ms() returns bigint language sql volatile as 'select 42::bigint';
create or replace function flowfabric._ff_clock_row() returns integer language sql immutable as 'select 1';
"""

THING_VIEW = """\
create or replace view flowfabric.ff_v_thing as
select t.thing_id, t.size from flowfabric.ff_thing as t;
grant select on flowfabric.ff_v_thing to flowfabric_reader;
"""


def ledger_row(number: int, name: str) -> str:
    return (
        "insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)\n"
        f"values ({number}, '{name}', 0, true);\n"
    )


class SampleEngine:
    """Two migrations and four function files in a directory; every method changes the files."""

    def __init__(self, root: Path) -> None:
        self.sources = SqlSources(root / "migrations", root / "plpgsql")
        self.sources.migrations_dir.mkdir(parents=True)
        shipped = SqlSources.shipped().plpgsql_dir
        for name in ("00_core/00_roles.sql", "00_core/01_privileges.sql", "99_seal/seal.sql"):
            target = self.sources.plpgsql_dir / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(shipped / name, target)
        self.add_migration(1, "engine", ENGINE_TABLES)
        self.add_migration(2, "thing", THING_TABLE)
        self.write("00_core/ff_now_ms.sql", NOW_FUNCTION)
        self.write("00_core/ff_now_ms.test_clock.sql", TEST_CLOCK_FUNCTION)
        self.write("10_thing/ff_size.sql", SIZE_FUNCTION)
        self.write("80_view/ff_v_thing.sql", THING_VIEW)

    def add_migration(self, number: int, name: str, text: str) -> None:
        """Write a migration and, as its last statement, its row of the ledger."""
        path = self.sources.migrations_dir / f"{number:04}.{name}.sql"
        path.write_text(text + ledger_row(number, name), encoding="utf-8")

    def remove_migration(self, number: int) -> None:
        (path,) = self.sources.migrations_dir.glob(f"{number:04}.*.sql")
        path.unlink()

    def write(self, name: str, text: str) -> None:
        path = self.sources.plpgsql_dir / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def remove(self, name: str) -> None:
        (self.sources.plpgsql_dir / name).unlink()

    def rename(self, name: str, new_name: str) -> None:
        (self.sources.plpgsql_dir / name).rename(self.sources.plpgsql_dir / new_name)
