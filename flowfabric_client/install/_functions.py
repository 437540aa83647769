"""Loading all function files in one transaction, and dropping what they no longer define."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from psycopg import errors as pg

from flowfabric_client._sql import SqlFile, SqlSources
from flowfabric_client._version import __version__
from flowfabric_client.install._connection import Connection, OnStep
from flowfabric_client.install._errors import StatementFailedError
from flowfabric_client.install._foreign_code import REVOKE_DEFAULT_PRIVILEGES
from flowfabric_client.install._lock import InstallationLock, join_installation
from flowfabric_client.install._script import run_file


@dataclass(frozen=True, slots=True)
class LoadResult:
    """How many files were loaded and which functions and views were dropped because no file defines them."""

    files: int
    dropped: tuple[str, ...]


def load_functions(
    conn: Connection, sources: SqlSources, lock: InstallationLock, *, with_test_clock: bool, on_step: OnStep
) -> LoadResult:
    """Make the functions and views of the schema those of the sources, and record their version.

    A view that loses or renames a column cannot be replaced. Only then are all views dropped first, because
    that fails where somebody built views of their own on ours.
    """
    files = sources.functions(with_test_clock=with_test_clock)

    def load(*, drop_views: bool) -> list[str]:
        with conn.transaction():
            join_installation(conn)
            if drop_views:
                _drop_views(conn, list(_view_versions(conn)))
            dropped = _replace(conn, sources, files)
            conn.execute(REVOKE_DEFAULT_PRIVILEGES)
            on_step(f"recording version {__version__}")
            conn.execute(version_record_sql(sources, with_test_clock=with_test_clock).encode())
            lock.assert_held()
            on_step("committing the functions")
        return dropped

    on_step(f"loading {len(files)} function files")
    try:
        dropped = load(drop_views=False)
    except StatementFailedError as exc:
        if not isinstance(exc.cause, pg.InvalidTableDefinition):
            raise
        on_step("loading again with all views dropped first, because the columns of a view changed")
        dropped = load(drop_views=True)
    on_step("functions committed")
    return LoadResult(len(files), tuple(dropped))


def version_record_sql(sources: SqlSources, *, with_test_clock: bool) -> str:
    """The statements that record which library is installed."""
    digest = sources.digest(with_test_clock=with_test_clock)
    return (
        f"{_ADD_TEST_CLOCK if with_test_clock else _REMOVE_TEST_CLOCK}\n"
        "update flowfabric.ff_partition_config\n"
        f"set ff_version = '{__version__}', library_digest = '{digest}';\n"
    )


def _replace(conn: Connection, sources: SqlSources, files: Sequence[SqlFile]) -> list[str]:
    conn.execute(_MARK_FUNCTIONS)
    views_before = _view_versions(conn)
    for file in files:
        run_file(conn, file)
    untouched_views = [
        name for name, version in _view_versions(conn).items() if views_before.get(name) == version
    ]
    return [*_drop_views(conn, untouched_views), *_drop_functions(conn, sources)]


def _view_versions(conn: Connection) -> dict[str, Any]:
    """Each view with the version of its rule, which `create or replace` writes anew and `grant` does not."""
    return {str(name): version for name, version in conn.execute(_VIEW_VERSIONS)}


def _drop_views(conn: Connection, names: Sequence[str]) -> list[str]:
    if names:
        conn.execute(f"drop view {', '.join(names)}".encode())
    return list(names)


def _drop_functions(conn: Connection, sources: SqlSources) -> list[str]:
    unneeded = []
    for signature, is_of_a_table in conn.execute(_MARKED_FUNCTIONS, [list(sources.routines_of_migrations())]):
        if is_of_a_table:
            conn.execute(f"alter routine {signature} reset application_name".encode())
        else:
            unneeded.append(str(signature))
    if unneeded:
        # One statement, so that functions may refer to each other.
        conn.execute(f"drop routine {', '.join(unneeded)}".encode())
    return unneeded


_ADD_TEST_CLOCK = """\
insert into flowfabric.ff_setting (name, value) values ('test_clock', 1)
on conflict (name) do update set value = excluded.value;"""

_REMOVE_TEST_CLOCK = """\
delete from flowfabric.ff_setting
where name in ('test_clock', 'test_clock_offset_ms', 'test_clock_frozen_at_ms');"""

# `create or replace` sets the list of settings of a function anew; `grant` and `comment` leave it alone. So
# every function gets a setting here, and those that a file defines have lost it after the load. Any role may
# set this one.
_MARK_FUNCTIONS: LiteralString = """
    do $mark$
    declare
        v_signature regprocedure;
    begin
        for v_signature in
            select p.oid::regprocedure
            from pg_proc as p
            join pg_namespace as n on n.oid = p.pronamespace
            where n.nspname = 'flowfabric'
                and p.prokind in ('f', 'p', 'w')
                and not exists (
                    select from pg_depend as d
                    where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
        loop
            execute format(
                'alter routine %s set application_name = ''flowfabric_not_reloaded''', v_signature);
        end loop;
    end;
    $mark$"""

# A function that a constraint, a default, an index or a trigger needs belongs to its table. What such a
# function calls in turn is not in pg_depend; that a migration created it is how it is known.
_MARKED_FUNCTIONS: LiteralString = """
    select
        p.oid::regprocedure::text,
        p.proname = any(%s)
        or exists (
            select
            from pg_depend as d
            where d.refclassid = 'pg_proc'::regclass
                and d.refobjid = p.oid
                and d.classid not in ('pg_proc'::regclass, 'pg_rewrite'::regclass))
    from pg_proc as p
    join pg_namespace as n on n.oid = p.pronamespace
    where n.nspname = 'flowfabric' and 'application_name=flowfabric_not_reloaded' = any(p.proconfig)
    order by 1"""

_VIEW_VERSIONS: LiteralString = """
    select c.oid::regclass::text, r.xmin::text || r.ctid::text
    from pg_class as c
    join pg_namespace as n on n.oid = c.relnamespace
    join pg_rewrite as r on r.ev_class = c.oid
    where n.nspname = 'flowfabric'
        and c.relkind = 'v'
        and not exists (
            select from pg_depend as d
            where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
    order by 1"""
