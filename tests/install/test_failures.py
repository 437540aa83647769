"""A failing installation: what it says, and that it leaves nothing half-done."""

from __future__ import annotations

import pytest

from flowfabric_client.install import InstallError, migrate
from tests.install.catalogue import read_catalogue
from tests.install.sample import SIZE_FUNCTION, SampleEngine
from tests.install.test_migrate import execute, rows

BROKEN_FILES = {
    "a syntax error": ("select 1;\n\nselect 2 from;\n", 3, "syntax error"),
    "an error inside a function body": (
        "create or replace function flowfabric.f() returns integer\n"
        "language plpgsql as $$\nbegin\n  retrun 1;\nend;\n$$;",
        4,
        "syntax error",
    ),
    "a name that does not exist": (
        "-- é\nselect 1;\nselect\n  nothing;\n",
        4,
        'column "nothing" does not exist',
    ),
    "an error without a position": (
        "-- A comment; with a semicolon.\nselect ';';\n\n-- Why.\n"
        "grant execute on function flowfabric.f() to flowfabric_reader;\n",
        5,
        r"function flowfabric.f\(\) does not exist",
    ),
    "an error at run time": ("select 1;\ndo $$ begin raise exception 'no; luck'; end $$;", 2, "no; luck"),
    "an unqualified name": (
        "create function f() returns integer language sql as 'select 1';",
        1,
        "no schema has been selected",
    ),
}


@pytest.mark.parametrize(("text", "line", "message"), BROKEN_FILES.values(), ids=BROKEN_FILES.keys())
def test_a_broken_function_file_is_named_with_its_line(
    installed_database: str, engine: SampleEngine, text: str, line: int, message: str
) -> None:
    before = read_catalogue(installed_database)
    engine.write("10_thing/broken.sql", text)
    engine.write("10_thing/ff_size.sql", "select 1;")

    with pytest.raises(InstallError, match=rf"^plpgsql/10_thing/broken\.sql:{line}: .*{message}"):
        migrate(installed_database, sources=engine.sources)

    assert read_catalogue(installed_database) == before


@pytest.mark.parametrize(("text", "line", "message"), [*BROKEN_FILES.values()][:5], ids=[*BROKEN_FILES][:5])
def test_a_broken_migration_is_named_with_its_line(
    installed_database: str, engine: SampleEngine, text: str, line: int, message: str
) -> None:
    before = read_catalogue(installed_database)
    engine.add_migration(
        3, "broken", f"-- depends: 0002.thing\ncreate table flowfabric.ff_new (id integer);\n{text}"
    )

    with pytest.raises(InstallError, match=rf"^migrations/0003\.broken\.sql:{line + 2}: .*{message}"):
        migrate(installed_database, sources=engine.sources)

    assert read_catalogue(installed_database) == before
    engine.add_migration(3, "broken", "-- corrected\n")
    assert migrate(installed_database, sources=engine.sources).applied == ("0003.broken",)


@pytest.mark.parametrize(
    "changed",
    [
        SIZE_FUNCTION.replace("returns integer", "returns bigint"),
        SIZE_FUNCTION.replace("p_thing_id", "p_id"),
        "create or replace procedure flowfabric.ff_size(p_thing_id integer) language sql as 'select 1';",
    ],
    ids=["its return type", "the name of a parameter", "its kind"],
)
def test_a_function_that_changes_what_replace_cannot_asks_for_a_migration(
    installed_database: str, engine: SampleEngine, changed: str
) -> None:
    engine.write("10_thing/ff_size.sql", changed)

    with pytest.raises(
        InstallError, match=r"^plpgsql/10_thing/ff_size\.sql:\d: .*a migration must drop the old signature"
    ):
        migrate(installed_database, sources=engine.sources)

    engine.add_migration(3, "drop-size", "drop function flowfabric.ff_size(integer);\n")
    engine.write("10_thing/ff_size.sql", SIZE_FUNCTION.replace("p_thing_id", "p_id"))
    assert migrate(installed_database, sources=engine.sources).changed


def test_a_failure_after_applied_migrations_says_that_they_are_applied(
    empty_database: str, engine: SampleEngine
) -> None:
    engine.write("10_thing/broken.sql", "oops;")
    with pytest.raises(InstallError, match=r"migrations 0001\.engine, 0002\.thing are applied"):
        migrate(empty_database, sources=engine.sources)

    engine.remove("10_thing/broken.sql")
    assert migrate(empty_database, sources=engine.sources).applied == ()


def test_a_function_that_a_file_still_uses_cannot_disappear(
    empty_database: str, engine: SampleEngine
) -> None:
    engine.write(
        "10_thing/a.sql",
        "create or replace function flowfabric.ff_a() returns integer language sql return 1;",
    )
    engine.write(
        "10_thing/b.sql",
        "create or replace function flowfabric.ff_b() returns integer language sql return flowfabric.ff_a();",
    )
    migrate(empty_database, sources=engine.sources)
    engine.remove("10_thing/a.sql")

    with pytest.raises(
        InstallError, match=r"function flowfabric\.ff_b\(\) depends on function flowfabric\.ff_a\(\)"
    ):
        migrate(empty_database, sources=engine.sources)


def test_a_file_cannot_end_the_transaction_of_the_load(empty_database: str, engine: SampleEngine) -> None:
    engine.write("10_thing/commits.sql", "commit;")
    with pytest.raises(InstallError, match=r"plpgsql/10_thing/commits\.sql ends the transaction"):
        migrate(empty_database, sources=engine.sources)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("0003.slow.sql", "-- transactional: false\nselect 1;", r"0003\.slow\.sql is not transactional"),
        (
            "0002.again.sql",
            "select 1;",
            r"0002\.thing\.sql has the same number as migrations/0002\.again\.sql",
        ),
        ("three.sql", "select 1;", r"three\.sql is not named like"),
    ],
)
def test_migrations_that_cannot_be_installed_safely_are_refused(
    empty_database: str, engine: SampleEngine, name: str, text: str, message: str
) -> None:
    (engine.sources.migrations_dir / name).write_text(text, encoding="utf-8")
    with pytest.raises(InstallError, match=message):
        migrate(empty_database, sources=engine.sources)
    assert rows(empty_database, "select from pg_namespace where nspname = 'flowfabric'") == []


def test_a_ledger_above_ours_is_refused(empty_database: str, engine: SampleEngine) -> None:
    engine.add_migration(3, "later", "")
    migrate(empty_database, sources=engine.sources)
    engine.remove_migration(3)

    with pytest.raises(InstallError, match=r"schema version 3, which is newer than this client .*upgrade"):
        migrate(empty_database, sources=engine.sources, force=True)


@pytest.mark.parametrize("version", ["0.10.0", "1.0", "99.0.0rc1"])
def test_a_later_library_is_refused(installed_database: str, engine: SampleEngine, version: str) -> None:
    execute(installed_database, f"update flowfabric.ff_partition_config set ff_version = '{version}'")

    with pytest.raises(InstallError, match=rf"FlowFabric {version} .*newer than this client"):
        migrate(installed_database, sources=engine.sources, force=True)


@pytest.mark.parametrize("version", ["0.0.9", "0.1.0rc1", "0.1"])
def test_an_earlier_library_is_replaced(installed_database: str, engine: SampleEngine, version: str) -> None:
    execute(installed_database, f"update flowfabric.ff_partition_config set ff_version = '{version}'")

    report = migrate(installed_database, sources=engine.sources)

    assert report.changed
    assert report.previous_version == version


def test_a_migration_of_another_line_of_development_is_refused(
    installed_database: str, engine: SampleEngine
) -> None:
    engine.remove_migration(2)
    engine.add_migration(2, "other-thing", "")

    with pytest.raises(InstallError, match=r"migration 0002\.thing, which this client does not know"):
        migrate(installed_database, sources=engine.sources)


HALF_INSTALLED = {
    "no ledger": ["drop table flowfabric.ff_migration_annotation"],
    "an empty ledger": ["delete from flowfabric.ff_migration_annotation"],
    "a row of the ledger is gone": ["delete from flowfabric.ff_migration_annotation where version = 2"],
    "no configuration": ["drop table flowfabric.ff_partition_config"],
    "no row of the configuration": ["delete from flowfabric.ff_partition_config"],
    "no settings": ["drop table flowfabric.ff_setting"],
    "only yoyo's tables": [
        "drop schema flowfabric cascade",
        "create schema flowfabric",
        "create table flowfabric._yoyo_migration (migration_id text)",
        "insert into flowfabric._yoyo_migration values ('0001.engine')",
    ],
}


@pytest.mark.parametrize("damage", HALF_INSTALLED.values(), ids=HALF_INSTALLED.keys())
def test_a_half_installed_schema_is_refused(
    installed_database: str, engine: SampleEngine, damage: list[str]
) -> None:
    execute(installed_database, *damage)
    before = read_catalogue(installed_database)

    with pytest.raises(InstallError, match=r"^Schema flowfabric is half-installed \(.*\): restore it"):
        migrate(installed_database, sources=engine.sources)

    assert read_catalogue(installed_database) == before


@pytest.mark.parametrize(
    "theirs",
    [
        "create table flowfabric.parts (id integer)",
        "create view flowfabric.parts as select 1",
        "create view flowfabric.yoyo_lock as select 1",
        "create function flowfabric.weave() returns integer language sql as 'select 1'",
        "create type flowfabric.pattern as enum ('plain', 'twill')",
    ],
)
def test_a_schema_of_somebody_else_is_refused(empty_database: str, engine: SampleEngine, theirs: str) -> None:
    execute(empty_database, "create schema flowfabric", theirs)
    with pytest.raises(InstallError, match=r"holds objects that FlowFabric did not put there"):
        migrate(empty_database, sources=engine.sources)


def test_an_empty_schema_is_taken(empty_database: str, engine: SampleEngine) -> None:
    execute(empty_database, "create schema flowfabric")
    assert migrate(empty_database, sources=engine.sources).changed
