"""The whole installation as one SQL file, for people who install with psql and never run Python."""

from flowfabric_client._sql import SqlFile, SqlSources
from flowfabric_client._version import __version__
from flowfabric_client.install._connection import OLDEST_SERVER
from flowfabric_client.install._errors import as_install_errors
from flowfabric_client.install._foreign_code import REVOKE_DEFAULT_PRIVILEGES
from flowfabric_client.install._functions import version_record_sql
from flowfabric_client.install._migrations import applied_sql, ledger_sql
from flowfabric_client.install._safety import guard_sql

_HEADER = """\
-- FlowFabric {version} for PostgreSQL {oldest} and later: the whole installation.
--
--     psql -1 -v ON_ERROR_STOP=1 -f this-file.sql
--
-- Install into a database that has no schema flowfabric, as the role that is to own the engine. That role
-- must be able to create the client roles, or a DBA creates them first (`flowfabric sql --roles-only`). The
-- result is that of `flowfabric migrate`, which also does the upgrades later.
"""

# psql without ON_ERROR_STOP continues after a refusal. Without -1 each statement is then a transaction of its
# own, and all of these are read-only until the guard has found nothing.
_GUARD = """\
set default_transaction_read_only = on;
do $$
declare
    v_row record;
begin
    if current_setting('server_version_num')::integer < {oldest}0000 then
        raise exception 'FlowFabric needs PostgreSQL {oldest} or later; this server is %.',
            current_setting('server_version');
    end if;
    if current_setting('server_encoding') <> 'UTF8' then
        raise exception 'FlowFabric needs a database in UTF8; this one is in %.',
            current_setting('server_encoding');
    end if;
    -- The owner of the schema can add functions to it, and the engine's run with the rights of their owner.
    for v_row in
        select pg_catalog.pg_get_userbyid(n.nspowner) as owner
        from pg_catalog.pg_namespace as n
        where n.nspname = 'flowfabric' and pg_catalog.pg_get_userbyid(n.nspowner) <> current_user
    loop
        raise exception 'Schema flowfabric belongs to another role, %.', v_row.owner
            using hint = pg_catalog.format(
                'Connect as %I and run this file again, or drop the schema if it is not yours.', v_row.owner);
    end loop;
{guard}    if exists (
        select from pg_catalog.pg_namespace as n
        join pg_catalog.pg_depend as d on d.refclassid = 'pg_namespace'::regclass and d.refobjid = n.oid
        where n.nspname = 'flowfabric'
    ) then
        raise exception 'Schema flowfabric exists and is not empty: upgrade it with "flowfabric migrate".';
    end if;
    reset default_transaction_read_only;
end;
$$;
"""


def render_sql(*, with_test_clock: bool = False, sources: SqlSources | None = None) -> str:
    """An SQL file that installs everything in an empty database, with the same result as `migrate`."""
    with as_install_errors():
        sources = sources or SqlSources.shipped()
        migrations = sources.migrations()
        parts = [
            _HEADER.format(version=__version__, oldest=OLDEST_SERVER),
            "set client_min_messages = warning;\nset check_function_bodies = on;\n",
            "set search_path = pg_catalog, pg_temp;\n",
            _GUARD.replace("{oldest}", str(OLDEST_SERVER)).replace("{guard}", guard_sql()),
            _section(sources.roles()),
            "create schema if not exists flowfabric;\n",
            _banner("the records of yoyo, which applies the migrations of later releases"),
            ledger_sql(),
            *map(_section, migrations),
            _banner("what the records say of the migrations above"),
            applied_sql(migrations),
            *map(_section, sources.functions(with_test_clock=with_test_clock)),
            _banner("what default privileges gave to other roles"),
            f"{REVOKE_DEFAULT_PRIVILEGES};\n",
            _banner("what is installed"),
            version_record_sql(sources, with_test_clock=with_test_clock),
            "reset search_path;\nreset check_function_bodies;\nreset client_min_messages;\n",
        ]
        return "\n".join(parts)


def render_roles_sql(*, sources: SqlSources | None = None) -> str:
    """The part of the installation that needs a role with CREATEROLE: what a DBA runs once per server."""
    with as_install_errors():
        return (sources or SqlSources.shipped()).roles().text


def _section(file: SqlFile) -> str:
    return f"{_banner(file.name)}\n{file.text}"


def _banner(title: str) -> str:
    return f"-- {title} ".ljust(120, "-")
