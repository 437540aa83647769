"""The SQL that this repository ships: migrations are numbered and recorded, PUBLIC has nothing."""

from __future__ import annotations

from flowfabric_client.install import CLIENT_ROLES, SqlSources, migrate
from tests.install.test_migrate import rows


def test_each_migration_writes_its_own_row_of_the_ledger(production_database: str) -> None:
    migrations = SqlSources.shipped().migrations()
    assert [migration.number for migration in migrations] == list(range(1, len(migrations) + 1))
    ledger = rows(
        production_database, "select version, name from flowfabric.ff_migration_annotation order by 1"
    )
    assert ledger == [(migration.number, migration.id.partition(".")[2]) for migration in migrations]


def test_each_migration_has_a_rollback() -> None:
    for migration in SqlSources.shipped().migrations():
        assert migration.path.with_suffix(".rollback.sql").is_file()


def test_public_has_no_privilege_in_the_schema(production_database: str) -> None:
    granted = rows(
        production_database,
        """
        select o.name, a.privilege_type
        from (
            select nspname::text, nspacl, nspowner, 'n' from pg_namespace where nspname = 'flowfabric'
            union all
            select oid::regprocedure::text, proacl, proowner, 'f' from pg_proc
            where pronamespace = 'flowfabric'::regnamespace
            union all
            select oid::regclass::text, relacl, relowner, case relkind when 'S' then 's' else 'r' end
            from pg_class
            where relnamespace = 'flowfabric'::regnamespace and relkind in ('r', 'p', 'v', 'm', 'S')
        ) as o (name, acl, owner, kind)
        cross join aclexplode(coalesce(o.acl, acldefault(o.kind::"char", o.owner))) as a
        where a.grantee = 0""",
    )
    assert granted == []


def test_client_roles_can_use_the_schema_and_create_nothing_in_it(production_database: str) -> None:
    privileges = rows(
        production_database,
        """
        select r.rolname, has_schema_privilege(r.oid, 'flowfabric', 'usage'),
            has_schema_privilege(r.oid, 'flowfabric', 'create')
        from pg_roles as r where r.rolname = any(%s)""",
        [*CLIENT_ROLES],
    )
    assert sorted(privileges) == [(role, True, False) for role in sorted(CLIENT_ROLES)]


def test_a_reload_drops_nothing_and_keeps_the_functions_of_migrations(production_database: str) -> None:
    assert migrate(production_database, force=True).dropped == ()

    of_migrations = SqlSources.shipped().routines_of_migrations()
    query = "select count(distinct proname) from pg_proc where proname = any(%s)"
    assert rows(production_database, query, [*of_migrations]) == [(len(of_migrations),)]
