"""A prepared schema: no role gains the rights of whoever installs or upgrades over it."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest
from click.testing import CliRunner
from psycopg.conninfo import make_conninfo

from flowfabric_client.cli import cli
from flowfabric_client.install import UnsafeSchemaError, migrate, render_roles_sql, render_sql, status
from tests.install.catalogue import read_catalogue
from tests.install.sample import SampleEngine
from tests.install.test_migrate import execute, rows
from tests.support.cluster import Cluster
from tests.support.pgtap import find_psql

# What a stranger hides in another schema. As the function of a trigger it takes the installer's own rights.
ATTACK = """
    create schema lair;
    create function lair.attack() returns trigger language plpgsql as $$
    begin
        begin
            reset role;
            alter role {role} superuser;
        exception when others then null;
        end;
        return coalesce(new, old);
    end;
    $$;
    create function lair.attack_as_value() returns integer language plpgsql as $$
    begin
        begin
            reset role;
            alter role {role} superuser;
        exception when others then null;
        end;
        return 1;
    end;
    $$;
    create function lair.attack_as_test(text) returns boolean language plpgsql immutable as $$
    begin
        perform lair.attack_as_value();
        return true;
    end;
    $$;
    create function lair.attack_by_event() returns event_trigger language plpgsql as $$
    begin
        perform lair.attack_as_value();
    end;
    $$;
    create operator lair.=== (function = int4eq, leftarg = integer, rightarg = integer);
    create domain lair.label as text check (lair.attack_as_test(value));
    create table lair.bait (locked integer);
"""

YOYO_LOCK = """
    create table flowfabric.yoyo_lock (
        locked int default 1, ctime timestamp, pid int not null, primary key (locked))
"""


@dataclass(frozen=True)
class Stranger:
    """A login that may create schemas in one database, and nothing else."""

    name: str
    dsn: str
    superuser_dsn: str

    def attack(self, *statements: str) -> None:
        execute(self.dsn, ATTACK.format(role=self.name), *statements)

    @property
    def is_superuser(self) -> bool:
        query = "select rolsuper from pg_roles where rolname = %s"
        return bool(rows(self.superuser_dsn, query, self.name)[0][0])


@pytest.fixture
def stranger(server: Cluster, installed_database: str) -> Iterator[Stranger]:
    """A stranger and an empty database; with `installed_database` the client roles exist."""
    name = f"mallory_{secrets.token_hex(4)}"
    with server.database() as dsn:
        database = rows(dsn, "select current_database()")[0][0]
        execute(
            dsn,
            f"create role {name} login password 'm'",
            f"grant create on database {database} to {name}",
        )
        yield Stranger(name, make_conninfo(dsn, user=name, password="m"), dsn)
    execute(installed_database, f"drop role {name}")


def test_a_trigger_on_the_lock_table_of_a_strangers_schema_never_fires(
    stranger: Stranger, engine: SampleEngine
) -> None:
    stranger.attack(
        "create schema flowfabric",
        YOYO_LOCK,
        "create trigger t before insert or delete or update on flowfabric.yoyo_lock"
        " for each statement execute function lair.attack()",
    )
    before = read_catalogue(stranger.superuser_dsn)

    with pytest.raises(UnsafeSchemaError, match=rf"belongs to {stranger.name}, which can log in") as failure:
        migrate(stranger.superuser_dsn, sources=engine.sources)

    assert f"run `flowfabric migrate` as {stranger.name}" in str(failure.value)
    assert not stranger.is_superuser
    assert read_catalogue(stranger.superuser_dsn) == before


def test_a_schema_that_a_stranger_creates_after_the_check_is_refused(
    stranger: Stranger, engine: SampleEngine
) -> None:
    def overtake(step: str) -> None:
        if step == "creating schema flowfabric":
            stranger.attack(
                "create schema flowfabric",
                YOYO_LOCK,
                "create trigger t before insert or delete or update on flowfabric.yoyo_lock"
                " for each statement execute function lair.attack()",
            )

    with pytest.raises(UnsafeSchemaError, match=rf"^Schema flowfabric now belongs to {stranger.name}: "):
        migrate(stranger.superuser_dsn, sources=engine.sources, on_step=overtake)

    assert not stranger.is_superuser
    assert len(rows(stranger.superuser_dsn, "select from pg_tables where schemaname = 'flowfabric'")) == 1


@pytest.mark.parametrize(
    "table", ["yoyo_lock", "_yoyo_log", "_yoyo_migration", "ff_migration_annotation", "ff_partition_config"]
)
def test_a_trigger_in_a_strangers_installation_never_fires_in_an_upgrade(
    stranger: Stranger, engine: SampleEngine, table: str
) -> None:
    migrate(stranger.dsn, sources=engine.sources)
    stranger.attack(
        f"create trigger t before insert or delete or update on flowfabric.{table}"
        " for each statement execute function lair.attack()"
    )
    engine.add_migration(3, "colour", "alter table flowfabric.ff_thing add column colour text;\n")

    with pytest.raises(UnsafeSchemaError, match=rf"belongs to {stranger.name}, "):
        migrate(stranger.superuser_dsn, sources=engine.sources)

    assert not stranger.is_superuser


def test_an_owner_upgrades_an_installation_of_its_own(stranger: Stranger, engine: SampleEngine) -> None:
    migrate(stranger.dsn, sources=engine.sources)
    engine.add_migration(3, "colour", "alter table flowfabric.ff_thing add column colour text;\n")

    assert migrate(stranger.dsn, sources=engine.sources).applied == ("0003.colour",)


def test_naming_the_stranger_as_owner_changes_nothing(stranger: Stranger, engine: SampleEngine) -> None:
    for _ in range(2):
        with pytest.raises(UnsafeSchemaError, match=stranger.name):
            migrate(stranger.superuser_dsn, sources=engine.sources, owner=stranger.name)
        execute(
            stranger.superuser_dsn, f"create schema if not exists flowfabric authorization {stranger.name}"
        )


def test_a_superuser_whose_connection_starts_as_a_stranger_is_recognised(
    stranger: Stranger, engine: SampleEngine
) -> None:
    disguised = make_conninfo(stranger.superuser_dsn, options=f"-c role={stranger.name}")
    with pytest.raises(UnsafeSchemaError, match=rf"could take the rights of {superuser(stranger)}"):
        migrate(disguised, sources=engine.sources)


def superuser(stranger: Stranger) -> str:
    return str(rows(stranger.superuser_dsn, "select session_user")[0][0])


def test_an_owner_that_no_login_can_become_is_acted_for(stranger: Stranger, engine: SampleEngine) -> None:
    execute(stranger.superuser_dsn, f"alter role {stranger.name} nologin")
    assert migrate(stranger.superuser_dsn, sources=engine.sources, owner=stranger.name).changed
    engine.add_migration(3, "colour", "alter table flowfabric.ff_thing add column colour text;\n")
    assert migrate(stranger.superuser_dsn, sources=engine.sources).owner == stranger.name


def test_a_session_of_an_owner_that_may_no_longer_log_in_counts(
    stranger: Stranger, engine: SampleEngine
) -> None:
    with psycopg.connect(stranger.dsn):
        execute(stranger.superuser_dsn, f"alter role {stranger.name} nologin")
        with pytest.raises(UnsafeSchemaError, match=stranger.name):
            migrate(stranger.superuser_dsn, sources=engine.sources, owner=stranger.name)


def test_a_member_of_the_owner_is_a_stranger_too(
    server: Cluster, stranger: Stranger, engine: SampleEngine
) -> None:
    execute(stranger.superuser_dsn, f"alter role {stranger.name} nologin")
    member, password = server.create_login_role(stranger.name)
    as_member = make_conninfo(stranger.superuser_dsn, user=member, password=password)
    try:
        with pytest.raises(
            UnsafeSchemaError, match=rf"and {member} can act as .*`revoke {stranger.name} from {member}`"
        ):
            migrate(stranger.superuser_dsn, sources=engine.sources, owner=stranger.name)
        # The only member may: every code in the schema is its own.
        assert migrate(as_member, sources=engine.sources, owner=stranger.name).changed

        rival, _ = server.create_login_role(stranger.name)
        with pytest.raises(UnsafeSchemaError, match=rf"code that {rival} puts into it .* rights of {member}"):
            migrate(as_member, sources=engine.sources, force=True)
        # A role that can become the connected one gains nothing.
        execute(stranger.superuser_dsn, f"grant {member} to {rival}")
        assert migrate(as_member, sources=engine.sources, force=True).changed
    finally:
        execute(stranger.superuser_dsn, f"revoke {stranger.name} from {member}")


# What was planted in a schema that is the installer's own, by a role that once had the right to do it.
# Each: statements of the superuser, and what the refusal names.
PLANTED = {
    "a trigger": (
        "create trigger t before insert or delete or update on flowfabric.yoyo_lock"
        " for each statement execute function lair.attack()",
        r"trigger t on table flowfabric\.yoyo_lock, which calls lair\.attack\(\) \(owner: mallory",
    ),
    "a constraint trigger": (
        "create constraint trigger t after insert or delete or update on flowfabric.yoyo_lock"
        " initially deferred for each row execute function lair.attack()",
        r"trigger t on table flowfabric\.yoyo_lock",
    ),
    "a rule": (
        "create rule r as on insert to flowfabric.yoyo_lock do also select lair.attack_as_value()",
        r"rule r on table flowfabric\.yoyo_lock",
    ),
    "a policy": (
        "create policy p on flowfabric.yoyo_lock using (lair.attack_as_value() = 1);"
        "alter table flowfabric.yoyo_lock enable row level security",
        r"policy p on table flowfabric\.yoyo_lock",
    ),
    "a default": (
        "alter table flowfabric.yoyo_lock add column x integer default lair.attack_as_value()",
        r"default of column x of table flowfabric\.yoyo_lock, which .* lair\.attack_as_value\(\)",
    ),
    "a default that hides its call in a text": (
        "alter table flowfabric.yoyo_lock add column x text;"
        "alter table flowfabric.yoyo_lock alter column x"
        " set default query_to_xml('select lair.attack_as_value()', true, true, '')::text",
        r"default of column x of table flowfabric\.yoyo_lock, which calls query_to_xml",
    ),
    "a generated column": (
        "alter table flowfabric.yoyo_lock add column x boolean"
        " generated always as (lair.attack_as_test(pid::text)) stored",
        r"default of column x of table flowfabric\.yoyo_lock",
    ),
    "a check": (
        "alter table flowfabric.yoyo_lock add constraint c check (lair.attack_as_value() = 1)",
        r"constraint c of table flowfabric\.yoyo_lock",
    ),
    "an index expression": (
        "create index i on flowfabric.yoyo_lock (lair.attack_as_test(pid::text))",
        r"index flowfabric\.i",
    ),
    "an index predicate": (
        "create index i on flowfabric.yoyo_lock (pid) where lair.attack_as_test(pid::text)",
        r"index flowfabric\.i",
    ),
    "a type": (
        "alter table flowfabric.yoyo_lock add column x lair.label",
        r"column x of table flowfabric\.yoyo_lock, whose type is lair\.label",
    ),
    "an operator": (
        "alter table flowfabric.yoyo_lock add constraint c check (1 operator(lair.===) 1)",
        r"constraint c of table flowfabric\.yoyo_lock, which uses lair\.===",
    ),
    "an operator of the schema": (
        "create operator flowfabric.=== (function = int4eq, leftarg = integer, rightarg = integer)",
        r"operator flowfabric\.===",
    ),
    "a domain of the schema": (
        "create domain flowfabric.label as text constraint c check (lair.attack_as_test(value))",
        r"constraint c of domain flowfabric\.label",
    ),
    "a foreign key from outside": (
        "create table lair.prey (locked integer references flowfabric.yoyo_lock on delete cascade)",
        r"foreign key prey_locked_fkey from lair\.prey to flowfabric\.yoyo_lock",
    ),
    "a child outside": (
        "create table lair.child () inherits (flowfabric.yoyo_lock)",
        r"inheritance of lair\.child from flowfabric\.yoyo_lock",
    ),
    "a table of a stranger": (
        "alter table flowfabric.yoyo_lock owner to {role}",
        r"table flowfabric\.yoyo_lock \(owner: mallory",
    ),
    "a materialized view": (
        "create materialized view flowfabric.m as select 1",
        r"materialized view flowfabric\.m",
    ),
    "the right to create": (
        "grant create on schema flowfabric to {role}",
        r"privilege CREATE on schema flowfabric for mallory",
    ),
    "the right to add triggers": (
        "grant trigger on flowfabric.yoyo_lock to public",
        r"privilege TRIGGER on table flowfabric\.yoyo_lock for public",
    ),
    "the right to refer to a column": (
        "grant references (locked) on flowfabric.yoyo_lock to {role}",
        r"privilege REFERENCES \(locked\) on table flowfabric\.yoyo_lock",
    ),
    "an event trigger with a function of a stranger": (
        "create event trigger e on ddl_command_end execute function lair.attack_by_event()",
        r"event trigger e, which calls lair\.attack_by_event\(\) \(owner: mallory",
    ),
}


def _plant(stranger: Stranger, planted: str) -> None:
    execute(stranger.superuser_dsn, *planted.format(role=stranger.name).split(";"))


@pytest.mark.parametrize(("planted", "named"), PLANTED.values(), ids=PLANTED.keys())
def test_what_was_planted_is_refused_on_the_first_install_until_it_is_removed(
    stranger: Stranger, engine: SampleEngine, planted: str, named: str
) -> None:
    stranger.attack()
    execute(stranger.superuser_dsn, "create schema flowfabric", YOYO_LOCK)
    _plant(stranger, planted)
    _refused_until_removed(stranger, engine, named)


@pytest.mark.parametrize(("planted", "named"), PLANTED.values(), ids=PLANTED.keys())
def test_what_was_planted_is_refused_on_an_upgrade_until_it_is_removed(
    stranger: Stranger, engine: SampleEngine, planted: str, named: str
) -> None:
    stranger.attack()
    migrate(stranger.superuser_dsn, sources=engine.sources)
    _plant(stranger, planted)
    engine.add_migration(3, "colour", "alter table flowfabric.ff_thing add column colour text;\n")
    _refused_until_removed(stranger, engine, named)


def _refused_until_removed(stranger: Stranger, engine: SampleEngine, named: str) -> None:
    before = read_catalogue(stranger.superuser_dsn)

    with pytest.raises(UnsafeSchemaError, match=named) as failure:
        migrate(stranger.superuser_dsn, sources=engine.sources)
    with pytest.raises(UnsafeSchemaError, match=named):
        status(stranger.superuser_dsn, sources=engine.sources)

    assert not stranger.is_superuser
    assert read_catalogue(stranger.superuser_dsn) == before
    assert failure.value.sql is not None
    execute(stranger.superuser_dsn, *failure.value.sql.splitlines())
    if "domain" in named:
        execute(stranger.superuser_dsn, "drop domain flowfabric.label")
    assert migrate(stranger.superuser_dsn, sources=engine.sources).changed
    assert not stranger.is_superuser


def test_an_event_trigger_of_a_superuser_is_no_obstacle(stranger: Stranger, engine: SampleEngine) -> None:
    execute(
        stranger.superuser_dsn,
        "create function public.audit() returns event_trigger language plpgsql as 'begin end'",
        "create event trigger audit on ddl_command_end execute function public.audit()",
    )
    assert migrate(stranger.superuser_dsn, sources=engine.sources).changed


def test_default_privileges_let_no_other_role_add_code(stranger: Stranger, engine: SampleEngine) -> None:
    execute(
        stranger.superuser_dsn,
        f"alter default privileges grant all on tables to {stranger.name}",
        f"alter default privileges grant all on schemas to {stranger.name}",
    )
    may_add_code = """
        select c.oid::regclass from pg_class as c
        where c.relnamespace = 'flowfabric'::regnamespace and c.relkind = 'r'
            and has_table_privilege(%s, c.oid, 'trigger')
        union all
        select n.oid from pg_namespace as n
        where n.nspname = 'flowfabric' and has_schema_privilege(%s, n.oid, 'create')"""
    seen: list[str] = []

    def look(step: str) -> None:
        if rows(stranger.superuser_dsn, "select from pg_namespace where nspname = 'flowfabric'"):
            seen.append(step)
            assert rows(stranger.superuser_dsn, may_add_code, stranger.name, stranger.name) == [], step

    migrate(stranger.superuser_dsn, sources=engine.sources, on_step=look)

    assert "applying migration 0002.thing" in seen
    assert not migrate(stranger.superuser_dsn, sources=engine.sources).changed


def test_the_command_ends_like_every_refusal_and_prints_the_statement(
    stranger: Stranger,
) -> None:
    stranger.attack()
    execute(stranger.superuser_dsn, "create schema flowfabric", YOYO_LOCK)
    _plant(stranger, PLANTED["a trigger"][0])

    result = CliRunner().invoke(cli, ["migrate", "--dsn", stranger.superuser_dsn])

    assert result.exit_code == 1
    assert "trigger t on table flowfabric.yoyo_lock" in result.stderr
    assert "drop trigger t on flowfabric.yoyo_lock;" in result.stderr


def psql(server: Cluster, dsn: str, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(find_psql(server.bin_dir)), "-X", "-q", *options, "-f", "-", "-d", dsn]
    return subprocess.run(command, input=text, text=True, capture_output=True, check=False)


@pytest.mark.parametrize("options", [["-1", "-v", "ON_ERROR_STOP=1"], ["-1"], []], ids=" ".join)
@pytest.mark.parametrize("adopted", [False, True], ids=["a stranger's schema", "the superuser's schema"])
def test_the_file_does_nothing_to_a_prepared_schema(
    server: Cluster, stranger: Stranger, engine: SampleEngine, options: list[str], adopted: bool
) -> None:
    """psql continues after an error unless it is told not to."""
    stranger.attack(
        "create schema flowfabric",
        YOYO_LOCK,
        "create trigger t before insert or delete or update on flowfabric.yoyo_lock"
        " for each statement execute function lair.attack()",
    )
    if adopted:
        execute(
            stranger.superuser_dsn,
            "alter schema flowfabric owner to current_user",
            "alter table flowfabric.yoyo_lock owner to current_user",
        )
    before = read_catalogue(stranger.superuser_dsn)

    run = psql(server, stranger.superuser_dsn, render_sql(sources=engine.sources), *options)

    if adopted:
        assert "trigger t on table flowfabric.yoyo_lock" in run.stderr
        assert "drop trigger t on flowfabric.yoyo_lock;" in run.stderr
    else:
        assert f"belongs to another role, {stranger.name}" in run.stderr
        assert f"Connect as {stranger.name}" in run.stderr
    assert not stranger.is_superuser
    assert read_catalogue(stranger.superuser_dsn) == before


@pytest.mark.parametrize("become", ["set role", "set session authorization"])
def test_the_file_is_not_for_a_superuser_who_acts_as_a_stranger(
    server: Cluster, stranger: Stranger, engine: SampleEngine, become: str
) -> None:
    text = f"{become} {stranger.name};\n{render_sql(sources=engine.sources)}"
    run = psql(server, stranger.superuser_dsn, text, "-1", "-v", "ON_ERROR_STOP=1")
    assert run.returncode != 0
    assert f"code of {stranger.name} could take the rights of {superuser(stranger)}" in run.stderr
    assert rows(stranger.superuser_dsn, "select from pg_namespace where nspname = 'flowfabric'") == []


def test_a_stranger_installs_with_the_file_what_is_its_own(
    server: Cluster, stranger: Stranger, engine: SampleEngine
) -> None:
    execute(stranger.superuser_dsn, render_roles_sql())
    run = psql(server, stranger.dsn, render_sql(sources=engine.sources), "-1", "-v", "ON_ERROR_STOP=1")
    assert (run.returncode, run.stderr) == (0, "")
    assert not migrate(stranger.dsn, sources=engine.sources).changed
