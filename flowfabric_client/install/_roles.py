"""The client roles: what is missing of them, and who may add it.

They belong to the whole server, so creating them is the one thing that needs more than the owner's rights.
"""

from dataclasses import dataclass
from typing import LiteralString

from flowfabric_client._sql import SqlSources
from flowfabric_client.install._connection import Connection, one_row
from flowfabric_client.install._errors import InstallError
from flowfabric_client.install._script import run_file

ADMIN_ROLE = "flowfabric_admin"
MEMBER_ROLES = (
    "flowfabric_producer",
    "flowfabric_worker",
    "flowfabric_signaller",
    "flowfabric_operator",
    "flowfabric_reader",
)
CLIENT_ROLES = (*MEMBER_ROLES, ADMIN_ROLE)


@dataclass(frozen=True, slots=True)
class RoleGaps:
    """Roles that do not exist, and existing ones that `flowfabric_admin` is not a member of."""

    missing: tuple[str, ...]
    ungranted: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.ungranted)

    def __str__(self) -> str:
        """What has to be done, as an infinitive phrase without its `to`."""
        parts = []
        if self.missing:
            parts.append(f"create {_and(self.missing)}")
        if self.ungranted:
            parts.append(f"grant {_and(self.ungranted)} to {ADMIN_ROLE}")
        return " and ".join(parts)


def find_role_gaps(conn: Connection) -> RoleGaps:
    """Compare the server's roles with what an installation needs."""
    existing = {str(row[0]) for row in conn.execute(_EXISTING, (list(CLIENT_ROLES),))}
    missing = tuple(role for role in CLIENT_ROLES if role not in existing)
    members = [role for role in MEMBER_ROLES if role in existing]
    if ADMIN_ROLE in existing:
        granted = {str(row[0]) for row in conn.execute(_GRANTED, (members, ADMIN_ROLE))}
        members = [role for role in members if role not in granted]
    return RoleGaps(missing, tuple(members))


def refuse_unless_fillable(conn: Connection, gaps: RoleGaps, sources: SqlSources) -> None:
    """Raise, with the SQL for a DBA, if the connected role may not add what is missing."""
    user, is_superuser, may_create, may_grant_all = one_row(conn, _POWERS, [list(gaps.ungranted)])
    # Until PostgreSQL 15 CREATEROLE may grant any role; from 16 on a grant needs the role's ADMIN option.
    may_grant = may_grant_all or (may_create and conn.info.server_version < 160_000)
    if is_superuser or ((may_create or not gaps.missing) and may_grant):
        return
    raise InstallError(
        f"Role {user} may not {gaps}: a DBA must first run what `flowfabric sql --roles-only` prints.",
        sql=sources.roles().text,
    )


def fill_role_gaps(conn: Connection, sources: SqlSources) -> None:
    """Create the missing roles and memberships, all of them or none."""
    with conn.transaction():
        run_file(conn, sources.roles())


def _and(names: tuple[str, ...]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


_EXISTING: LiteralString = "select r.rolname from pg_roles as r where r.rolname = any(%s)"

_GRANTED: LiteralString = """
    select m.role_name
    from unnest(%s::text[]) as m (role_name)
    where pg_has_role(%s::name, m.role_name::name, 'usage')"""

_POWERS: LiteralString = """
    select
        r.rolname,
        r.rolsuper,
        r.rolcreaterole,
        coalesce(
            (
                select bool_and(pg_has_role(current_user, g.role_name::name, 'member with admin option'))
                from unnest(%s::text[]) as g (role_name)
            ),
            true)
    from pg_roles as r
    where r.rolname = current_user"""
