"""What `migrate` does to a database, and what it leaves alone."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable
from threading import Thread
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from flowfabric_client import __version__
from flowfabric_client.install import InstallError, MigrateReport, SqlSources, migrate, status
from tests.install.catalogue import read_catalogue
from tests.install.sample import SampleEngine
from tests.support.cluster import Cluster

READ_ONLY = "-c default_transaction_read_only=on"


def rows(dsn: str, query: str, *args: object) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as conn:
        return conn.execute(query.encode(), args or None).fetchall()


def execute(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        for statement in statements:
            conn.execute(statement.encode())


def routines(dsn: str) -> set[str]:
    query = "select oid::regprocedure::text from pg_proc where pronamespace = 'flowfabric'::regnamespace"
    return {name.removeprefix("flowfabric.") for (name,) in rows(dsn, query)}


def test_the_first_run_installs_and_says_what(empty_database: str, engine: SampleEngine) -> None:
    report = migrate(empty_database, sources=engine.sources)

    assert report == MigrateReport(
        changed=True,
        version=__version__,
        previous_version=None,
        schema_version=2,
        digest=engine.sources.digest(with_test_clock=False),
        test_clock=False,
        owner=rows(empty_database, "select current_user")[0][0],
        applied=("0001.engine", "0002.thing"),
        files_loaded=6,
        dropped=(),
    )
    recorded = rows(empty_database, "select ff_version, library_digest from flowfabric.ff_partition_config")
    assert recorded == [(__version__, report.digest)]
    assert status(empty_database, sources=engine.sources).current


def test_a_second_run_writes_nothing(installed_database: str, engine: SampleEngine) -> None:
    before = read_catalogue(installed_database)

    report = migrate(make_conninfo(installed_database, options=READ_ONLY), sources=engine.sources)

    assert not report.changed
    assert report.previous_version == __version__
    assert read_catalogue(installed_database) == before


def test_force_loads_the_functions_again(installed_database: str, engine: SampleEngine) -> None:
    execute(installed_database, "drop function flowfabric.ff_size(integer)")
    assert not migrate(installed_database, sources=engine.sources).changed

    assert migrate(installed_database, sources=engine.sources, force=True).changed

    assert "ff_size(integer)" in routines(installed_database)


def test_an_upgraded_installation_equals_a_fresh_one(
    server: Cluster, installed_database: str, engine: SampleEngine
) -> None:
    engine.add_migration(3, "colour", "alter table flowfabric.ff_thing add column colour text;\n")
    engine.write("10_thing/ff_size.sql", "select 1;")
    engine.write(
        "10_thing/ff_colour.sql",
        "create or replace function flowfabric.ff_colour() returns text language sql stable as\n"
        "'select t.colour from flowfabric.ff_thing as t';\n"
        "grant execute on function flowfabric.ff_colour() to flowfabric_reader;\n",
    )

    report = migrate(installed_database, sources=engine.sources)

    assert report.applied == ("0003.colour",)
    assert report.dropped == ("flowfabric.ff_size(integer)",)
    with server.database() as fresh:
        migrate(fresh, sources=engine.sources)
        assert read_catalogue(installed_database) == read_catalogue(fresh)


def test_a_signature_that_no_file_defines_any_more_is_dropped(
    empty_database: str, engine: SampleEngine
) -> None:
    engine.write("10_thing/gone.sql", "create procedure flowfabric.ff_gone() language sql as 'select 1';")
    migrate(empty_database, sources=engine.sources)
    engine.remove("10_thing/gone.sql")
    engine.write(
        "10_thing/ff_size.sql",
        "create or replace function flowfabric.ff_size(p_thing_id integer, p_unit text) returns integer\n"
        "language sql stable as 'select 1';",
    )

    report = migrate(empty_database, sources=engine.sources)

    assert set(report.dropped) == {"flowfabric.ff_gone()", "flowfabric.ff_size(integer)"}
    assert routines(empty_database) == {
        "_ff_largest_size()",
        "_ff_size_is_legal(integer)",
        "ff_now_ms()",
        "ff_size(integer,text)",
    }


def test_functions_that_call_each_other_can_disappear_together(
    empty_database: str, engine: SampleEngine
) -> None:
    engine.write(
        "10_thing/pair.sql",
        "create function flowfabric.ff_a() returns integer language sql return 1;\n"
        "create function flowfabric.ff_b() returns integer language sql return flowfabric.ff_a();\n",
    )
    migrate(empty_database, sources=engine.sources)
    engine.remove("10_thing/pair.sql")

    assert migrate(empty_database, sources=engine.sources).dropped == (
        "flowfabric.ff_a()",
        "flowfabric.ff_b()",
    )


def test_functions_of_migrations_stay_and_keep_working(empty_database: str, engine: SampleEngine) -> None:
    for _ in range(2):
        migrate(empty_database, sources=engine.sources, force=True)
        execute(empty_database, "update flowfabric.ff_thing set size = size + 1")
    settings = rows(empty_database, "select proconfig from pg_proc where proname = '_ff_largest_size'")
    assert settings == [(None,)]


def test_a_function_that_a_table_needs_stays_although_its_file_went(
    empty_database: str, engine: SampleEngine
) -> None:
    engine.write(
        "10_thing/half.sql",
        "create function flowfabric._ff_half(integer) returns integer\n"
        "language sql immutable as 'select $1 / 2';",
    )
    migrate(empty_database, sources=engine.sources)
    execute(empty_database, "create index on flowfabric.ff_thing (flowfabric._ff_half(size))")
    engine.remove("10_thing/half.sql")

    assert migrate(empty_database, sources=engine.sources).dropped == ()
    assert "_ff_half(integer)" in routines(empty_database)


def test_a_function_of_an_extension_is_left_alone(installed_database: str, engine: SampleEngine) -> None:
    execute(
        installed_database,
        "create function flowfabric.theirs() returns integer language sql as 'select 1'",
        "alter extension plpgsql add function flowfabric.theirs()",
    )

    migrate(installed_database, sources=engine.sources, force=True)

    assert "theirs()" in routines(installed_database)


def test_a_view_can_lose_a_column(installed_database: str, engine: SampleEngine) -> None:
    engine.write(
        "80_view/ff_v_thing.sql",
        "create or replace view flowfabric.ff_v_thing as select t.size from flowfabric.ff_thing as t;\n"
        "grant select on flowfabric.ff_v_thing to flowfabric_reader;\n",
    )

    migrate(installed_database, sources=engine.sources)

    assert rows(installed_database, "select * from flowfabric.ff_v_thing") == [(10,)]
    assert rows(
        installed_database,
        "select has_table_privilege('flowfabric_reader', 'flowfabric.ff_v_thing', 'select')",
    )[0][0]


def test_a_view_that_no_file_defines_any_more_is_dropped(
    installed_database: str, engine: SampleEngine
) -> None:
    engine.remove("80_view/ff_v_thing.sql")

    assert migrate(installed_database, sources=engine.sources).dropped == ("flowfabric.ff_v_thing",)


def test_views_that_users_built_on_ours_survive_an_upgrade(
    installed_database: str, engine: SampleEngine
) -> None:
    execute(installed_database, "create view public.report as select size from flowfabric.ff_v_thing")
    engine.write(
        "80_view/ff_v_thing.sql",
        "create or replace view flowfabric.ff_v_thing as\n"
        "select t.thing_id, t.size, t.size * 2 as double_size from flowfabric.ff_thing as t;\n",
    )

    migrate(installed_database, sources=engine.sources)

    assert rows(installed_database, "select * from public.report") == [(10,)]
    assert rows(installed_database, "select double_size from flowfabric.ff_v_thing") == [(20,)]


def test_a_view_that_must_change_under_a_users_view_is_refused_by_name(
    installed_database: str, engine: SampleEngine
) -> None:
    execute(installed_database, "create view public.report as select size from flowfabric.ff_v_thing")
    before = read_catalogue(installed_database)
    engine.write(
        "80_view/ff_v_thing.sql",
        "create or replace view flowfabric.ff_v_thing as select t.thing_id from flowfabric.ff_thing as t;\n",
    )

    with pytest.raises(
        InstallError, match=r"view public\.report depends on view flowfabric\.ff_v_thing; drop"
    ):
        migrate(installed_database, sources=engine.sources)

    assert read_catalogue(installed_database) == before


def test_a_grant_that_is_not_in_a_file_is_gone_after_the_next_load(
    installed_database: str, engine: SampleEngine
) -> None:
    expected = read_catalogue(installed_database)
    execute(
        installed_database,
        "grant execute on function flowfabric.ff_size(integer) to public, flowfabric_worker",
        "grant select on flowfabric.ff_thing to public, flowfabric_reader",
        "grant update (size) on flowfabric.ff_thing to flowfabric_operator",
        "grant usage on schema flowfabric to public",
    )
    assert read_catalogue(installed_database) != expected

    migrate(installed_database, sources=engine.sources, force=True)

    assert read_catalogue(installed_database) == expected


def test_the_test_clock_is_added_kept_and_removed(empty_database: str, engine: SampleEngine) -> None:
    def now_ms() -> int:
        return int(rows(empty_database, "select flowfabric.ff_now_ms()")[0][0])

    assert not migrate(empty_database, sources=engine.sources).test_clock
    assert now_ms() == 0
    plain = read_catalogue(empty_database)

    assert migrate(empty_database, sources=engine.sources, with_test_clock=True).test_clock
    assert now_ms() == 42
    assert rows(empty_database, "select value from flowfabric.ff_setting where name = 'test_clock'") == [(1,)]
    execute(empty_database, "insert into flowfabric.ff_setting values ('test_clock_offset_ms', 5)")

    kept = migrate(empty_database, sources=engine.sources)
    assert kept.test_clock
    assert not kept.changed

    removed = migrate(empty_database, sources=engine.sources, with_test_clock=False)
    assert removed.dropped == ("flowfabric._ff_clock_row()",)
    assert read_catalogue(empty_database) == plain


def test_a_migration_that_yoyo_lost_track_of_is_not_applied_twice(
    installed_database: str, engine: SampleEngine
) -> None:
    """The state after a kill between a migration's own commit and yoyo's mark."""
    execute(installed_database, "delete from flowfabric._yoyo_migration where migration_id = '0002.thing'")
    assert not status(installed_database, sources=engine.sources).current
    steps: list[str] = []

    report = migrate(installed_database, sources=engine.sources, on_step=steps.append)

    assert report.applied == ()
    assert "recording as applied: 0002.thing" in steps
    assert status(installed_database, sources=engine.sources).current


def test_a_lock_that_a_killed_yoyo_left_behind_is_no_obstacle(
    installed_database: str, engine: SampleEngine
) -> None:
    execute(installed_database, "insert into flowfabric.yoyo_lock (locked, pid) values (1, 4711)")
    engine.add_migration(3, "next", "")

    assert migrate(installed_database, sources=engine.sources).applied == ("0003.next",)
    assert rows(installed_database, "select * from flowfabric.yoyo_lock") == []


def test_a_run_waits_for_another_one_and_then_finds_its_work_done(
    empty_database: str, engine: SampleEngine
) -> None:
    first_has_lock, reports = [], []

    def second(step: str) -> None:
        steps.append(step)

    steps: list[str] = []

    def first(step: str) -> None:
        if step == "installation lock taken":
            first_has_lock.append(True)
            thread.start()
            _wait_for_installer_that_waits(empty_database)

    thread = Thread(
        target=lambda: reports.append(migrate(empty_database, sources=engine.sources, on_step=second))
    )
    assert migrate(empty_database, sources=engine.sources, on_step=first).changed
    thread.join(timeout=30)

    assert first_has_lock
    assert "waiting for another installer to finish" in steps
    assert [report.changed for report in reports] == [False]


def _wait_for_installer_that_waits(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        waiting = "select from pg_locks where relation = 'flowfabric.yoyo_lock'::regclass and not granted"
        while not conn.execute(waiting.encode()).fetchall():
            conn.execute("select pg_sleep(0.01)")


def test_a_migration_gives_up_waiting_for_a_lock(installed_database: str, engine: SampleEngine) -> None:
    engine.add_migration(3, "colour", "alter table flowfabric.ff_thing add column colour text;\n")
    with psycopg.connect(installed_database) as reader:
        reader.execute("select * from flowfabric.ff_thing")
        with pytest.raises(
            InstallError, match=r"^migrations/0003\.colour\.sql:1: .*lock timeout.*another session"
        ):
            migrate(installed_database, sources=engine.sources, lock_timeout_ms=50)

    assert migrate(installed_database, sources=engine.sources).applied == ("0003.colour",)


def test_timeouts_of_the_database_do_not_end_an_installation(
    server: Cluster, empty_database: str, engine: SampleEngine
) -> None:
    engine.add_migration(3, "slow", "select pg_sleep(0.3);\n")
    database = rows(empty_database, "select current_database()")[0][0]
    execute(
        empty_database,
        f"alter database {database} set statement_timeout = '200ms'",
        f"alter database {database} set idle_session_timeout = '200ms'",
        f"alter database {database} set default_transaction_isolation = 'serializable'",
    )

    assert "0003.slow" in migrate(empty_database, sources=engine.sources).applied


def test_rows_of_a_select_in_a_migration_are_not_printed(
    empty_database: str, engine: SampleEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.add_migration(3, "question", "select 'an answer';\n")
    migrate(empty_database, sources=engine.sources)
    assert capsys.readouterr() == ("", "")


def test_neither_a_user_name_nor_a_name_server_is_needed(
    empty_database: str, engine: SampleEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object) -> str:
        raise OSError("a container without /etc/passwd and without network")

    monkeypatch.setattr(getpass, "getuser", unknown)
    monkeypatch.setattr(socket, "getfqdn", unknown)

    assert migrate(empty_database, sources=engine.sources).changed


def test_everything_belongs_to_the_chosen_owner(server: Cluster, engine: SampleEngine) -> None:
    with server.database() as dsn:
        database = rows(dsn, "select current_database()")[0][0]
        owner = f"{database} owner"
        execute(dsn, f'create role "{owner}" nologin', f'grant create on database {database} to "{owner}"')
        try:
            assert migrate(dsn, sources=engine.sources, owner=owner).owner == owner
            engine.add_migration(3, "next", "create table flowfabric.ff_next (id integer);\n")
            # The owner need not be named again: whoever connects acts as the one the schema has.
            assert migrate(dsn, sources=engine.sources).owner == owner

            owners = rows(
                dsn,
                """
                select n.nspowner::regrole::text from pg_namespace as n where n.nspname = 'flowfabric'
                union
                select o.owner::regrole::text
                from (
                    select proowner, pronamespace from pg_proc
                    union all select relowner, relnamespace from pg_class
                    union all select typowner, typnamespace from pg_type
                ) as o (owner, namespace)
                where o.namespace = 'flowfabric'::regnamespace
                """,
            )
        finally:
            execute(dsn, f'drop owned by "{owner}" cascade', f'drop role "{owner}"')
    assert owners == [(f'"{owner}"',)]


def test_the_digest_depends_on_names_texts_and_clock(engine: SampleEngine) -> None:
    def digests(sources: SqlSources) -> set[str]:
        return {sources.digest(with_test_clock=True), sources.digest(with_test_clock=False)}

    seen = digests(engine.sources)
    assert len(seen) == 2
    changes: list[Callable[[], None]] = [
        lambda: engine.add_migration(3, "next", ""),
        lambda: engine.write("10_thing/ff_size.sql", "select 1;"),
        lambda: engine.write("10_thing/new.sql", ""),
        lambda: engine.rename("10_thing/new.sql", "10_thing/renamed.sql"),
    ]
    for change in changes:
        change()
        now = digests(engine.sources)
        assert not seen & now
        seen |= now


def test_line_ends_do_not_change_the_digest(engine: SampleEngine) -> None:
    before = engine.sources.digest(with_test_clock=False)
    path = engine.sources.plpgsql_dir / "10_thing/ff_size.sql"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert engine.sources.digest(with_test_clock=False) == before
