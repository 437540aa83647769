"""Refusing to work where another role could let code of its own run with the rights of the installer.

The installer acts as the owner of the schema. `set role` protects nothing: a trigger, a default or a
constraint that runs in the installer's session can `reset role`, and then has the rights of the login behind
the connection. So two things must hold before the installer reads or writes a table of the schema:

- No other login can act as the owner, unless the connection itself is the owner's. Then no role is left that
  could add code after the check.
- The schema holds no code but the engine's.
"""

from typing import LiteralString

from flowfabric_client.install._connection import Connection, one_row
from flowfabric_client.install._errors import UnsafeSchemaError
from flowfabric_client.install._foreign_code import FINDINGS, OTHER_ACTORS

_SHOWN = 3


def refuse_unsafe_schema(conn: Connection) -> None:
    """Raise if code of another role is in the schema, or could get into it; waits for no lock."""
    owner, acting_as = one_row(conn, _OWNER)
    if owner not in (None, acting_as):
        raise UnsafeSchemaError(
            f"Schema flowfabric now belongs to {owner}: another session created it, or gave it away. "
            f"Run `flowfabric migrate` as {owner}, or drop the schema if it is not yours."
        )
    _refuse_other_actors(conn, schema_exists=owner is not None)
    refuse_foreign_code(conn)


def _refuse_other_actors(conn: Connection, *, schema_exists: bool) -> None:
    """Raise if another login can act as the current role and gain the rights behind this connection."""
    row = conn.execute(OTHER_ACTORS).fetchone()
    if row is None:
        return
    login, owner, other = (str(value) for value in row)
    belongs = "belongs" if schema_exists else "would belong"
    able = "which can log in" if other == owner else f"and {other} can act as {owner}"
    remedy = f"run `flowfabric migrate` as {owner}"
    if other != owner:
        remedy += f", or run `revoke {owner} from {other}` first"
    if schema_exists:
        remedy += ", or drop the schema if it is not yours"
    raise UnsafeSchemaError(
        f"Schema flowfabric {belongs} to {owner}, {able}: code that {other} puts into it could take the "
        f"rights of {login}. Nothing was changed; {remedy}."
    )


def refuse_foreign_code(conn: Connection) -> None:
    """Raise if the schema holds anything that could run code which is not the engine's."""
    findings = conn.execute(FINDINGS).fetchall()
    if not findings:
        return
    named = "; ".join(f"{what} (owner: {owner})" for what, _, owner in findings[:_SHOWN])
    more = f"; and {len(findings) - _SHOWN} more" if len(findings) > _SHOWN else ""
    raise UnsafeSchemaError(
        f"Schema flowfabric holds what could run code of another role with your rights: {named}{more}. "
        "Nothing was changed; run the statements that remove it, or drop the schema if it is not yours.",
        sql="".join(f"{remedy};\n" for _, remedy, _ in findings),
    )


def guard_sql() -> str:
    """The statements of a DO block, with a record v_row, that raise for what the functions above refuse."""
    return _GUARD.replace("{other_actors}", OTHER_ACTORS).replace("{findings}", FINDINGS)


_OWNER: LiteralString = """
    select
        (select pg_get_userbyid(n.nspowner)::text from pg_namespace as n where n.nspname = 'flowfabric'),
        current_user::text"""

_GUARD = """\
    for v_row in{other_actors}
    loop
        raise exception 'Schema flowfabric would belong to %, and code of % could take the rights of %.',
            v_row.acting, v_row.other, v_row.login
            using hint = pg_catalog.format('Connect as %I and run this file again.', v_row.acting);
    end loop;
    for v_row in{findings}
    loop
        raise exception 'Schema flowfabric holds what could run code of another role with your rights: %.',
            v_row.what || ' (owner: ' || v_row.owner || ')'
            using hint = 'Run: ' || v_row.remedy || ';';
    end loop;
"""
