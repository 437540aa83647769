"""The installer: puts the engine's schema into a database and keeps it up to date.

A run refuses a schema that could hold code of another role. It creates the schema if it is missing, locks a
table of it, creates the client roles, applies pending migrations through yoyo, and loads all function files
in one transaction. Each of these is a transaction that the next run does not repeat, so a run may be killed
at any point.
"""

from flowfabric_client._sql import SqlSources
from flowfabric_client.install._errors import InstallError, UnreachableError, UnsafeSchemaError
from flowfabric_client.install._migrate import DEFAULT_LOCK_TIMEOUT_MS, MigrateReport, migrate
from flowfabric_client.install._render import render_roles_sql, render_sql
from flowfabric_client.install._roles import CLIENT_ROLES
from flowfabric_client.install._status import InstallStatus, status

__all__ = [
    "CLIENT_ROLES",
    "DEFAULT_LOCK_TIMEOUT_MS",
    "InstallError",
    "InstallStatus",
    "MigrateReport",
    "SqlSources",
    "UnreachableError",
    "UnsafeSchemaError",
    "migrate",
    "render_roles_sql",
    "render_sql",
    "status",
]
