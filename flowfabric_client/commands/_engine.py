"""The database that a command works on: its connection, its answers, and its refusals as sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, LiteralString, NoReturn, TypeVar
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from flowfabric_client import _conninfo, errors
from flowfabric_client._denial import SMALLEST_FIRST
from flowfabric_client.client import Client
from flowfabric_client.commands import (
    EXIT_ERROR,
    EXIT_NOT_FOUND,
    EXIT_TIMED_OUT,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
    dsn_option,
    fail,
    json_option,
    print_json,
)
from flowfabric_client.commands._output import Column, as_dict, console, make_fitting_table, print_table, text

R = TypeVar("R")


class UnreachableError(errors.FlowFabricError):
    """No connection could be made; the message says to what and why."""


class NotThereError(errors.FlowFabricError):
    """What the command was asked about does not exist."""


class Engine:
    """The database of one command, connected when it is first asked for."""

    def __init__(self, dsn: str, *, as_json: bool) -> None:
        self.dsn = dsn
        self.as_json = as_json
        self.is_stream = False
        """Whether the output is a stream of JSON lines, which an error must end as another line."""
        self._connection: psycopg.Connection[Any] | None = None

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The one connection of the command, in autocommit mode."""
        if self._connection is None:
            self._connection = _connect(self.dsn)
        return self._connection

    @property
    def client(self) -> Client:
        """The engine's functions, each call a transaction of its own."""
        return Client(self.connection)

    @contextmanager
    def watching_client(self) -> Iterator[Client]:
        """A client that can follow something for long: on a pool, and over a restart of the server."""
        # The pool would say less well why the first connection cannot be made.
        self.client.ping()
        with Client(self.dsn) as client:
            yield client

    def close(self) -> None:
        """Let the connection go; the next use opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def view(self, name: str, query: LiteralString, row: type[R], **parameters: Any) -> list[R]:
        """Read one of the views for people.

        Args:
            name: The view, for the sentence that says who may read it.
            query: The statement; its columns are the fields of `row`.
            row: A dataclass.
            parameters: The values of the statement.
        """
        try:
            with self.connection.cursor(row_factory=class_row(row)) as cursor:
                return cursor.execute(query, parameters).fetchall()
        except psycopg.Error as cause:
            raise errors.from_psycopg(cause, idempotent=True, function=name) from cause

    def wire_id(self, execution_id: str) -> str:
        """The id `{fp:N}:uuid` of an execution that may be named by its bare uuid."""
        try:
            bare = UUID(execution_id)
            found = self.client.find_execution(bare)
        except (ValueError, errors.PermissionDeniedError):
            # The engine says what is missing.
            return execution_id
        if not found:
            raise NotThereError(
                f"There is no execution {bare}: `flowfabric executions list` shows those there are. "
                "An ended execution is deleted when its retention is over."
            )
        if len(found) > 1:
            raise errors.InvalidInputError(
                f"{bare} is the uuid of several executions; name one: "
                + ", ".join(str(row.execution_id) for row in found)
            )
        return str(found[0].execution_id)

    def print_page(
        self,
        rows: Sequence[R],
        columns: Sequence[Column[R]],
        *,
        empty: str,
        next_after: Callable[[R], str] | None = None,
        has_more: bool | None = None,
        following: str | None = None,
    ) -> None:
        """Print a page of a list: a table and how to get the next page, or `items` and `next`.

        Args:
            rows: The page.
            columns: How people see it.
            empty: What people read if there is nothing.
            next_after: The cursor behind a row; without it there are no pages.
            has_more: Whether there is a next page; by default the rows say so.
            following: The cursor of the next page, where the caller knows it.
        """
        if has_more is None:
            has_more = bool(rows) and bool(getattr(rows[-1], "has_more", False))
        if following is None and rows and has_more and next_after:
            following = next_after(rows[-1])
        if self.as_json:
            print_json({"items": [as_dict(row) for row in rows], "next": following})
            return
        out = console()
        if not rows:
            out.print(empty, style="bright_black")
            return
        print_table(make_fitting_table(rows, columns, self.client.now_ms(), out), out)
        if following is not None:
            console(to_stderr=True).print(
                text(f"There are more: --after '{following}'"), style="bright_black", soft_wrap=True
            )

    def print_done(self, sentence: str, row: Any) -> None:
        """Print what an action did: a sentence, or the answer of the engine."""
        if self.as_json:
            print_json(as_dict(row))
        else:
            console().print(text(sentence), soft_wrap=True)


def engine_command(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command `--dsn`, `--json` and, as its first argument, the `Engine` they name.

    An argument `execution_id` may be a bare uuid; the command gets the whole id. Whatever the engine refuses
    ends the command with one sentence and an exit code.
    """

    @dsn_option
    @json_option
    @wraps(function)
    def command(*, dsn: str, as_json: bool, **arguments: Any) -> None:
        engine = Engine(dsn, as_json=as_json)
        try:
            if execution_id := arguments.get("execution_id"):
                arguments["execution_id"] = engine.wire_id(execution_id)
            function(engine, **arguments)
        except errors.FlowFabricError as error:
            _fail(engine, error)
        finally:
            engine.close()

    return command


def _connect(dsn: str) -> psycopg.Connection[Any]:
    try:
        dsn = _conninfo.with_connect_timeout(dsn)
    except psycopg.Error:
        raise UnreachableError(_conninfo.NOT_A_CONNECTION_STRING) from None
    try:
        # No prepared statements: behind a pooler in transaction mode the next call may meet another session.
        return psycopg.connect(dsn, autocommit=True, prepare_threshold=None, application_name="flowfabric")
    except psycopg.Error as cause:
        raise UnreachableError(
            f"Cannot connect to {_conninfo.display_name(dsn)}: {_conninfo.failure_reason(cause, dsn)}. "
            "Check --dsn or FLOWFABRIC_DSN, and that the server is running."
        ) from cause


def _fail(engine: Engine, error: errors.FlowFabricError) -> NoReturn:
    message, exit_code, help_sql = str(error), EXIT_ERROR, None
    match error:
        case errors.NotFoundError() | NotThereError():
            exit_code = EXIT_NOT_FOUND
        case UnreachableError():
            exit_code = EXIT_UNREACHABLE
        case errors.ValidationError() if _is_bad_argument(error):
            exit_code = EXIT_USAGE
        case errors.ClientTimeoutError():
            exit_code = EXIT_TIMED_OUT
        case errors.SchemaVersionMismatchError():
            message = (
                "FlowFabric is not installed in this database, or not in the version of this client: "
                "run `flowfabric migrate`; `flowfabric status` says what is there."
            )
        case errors.PermissionDeniedError():
            message, help_sql = _explain_denial(engine, error)
        case errors.TransportError() if is_connection_loss(error):
            exit_code = EXIT_UNREACHABLE
            message = f"The connection was lost, and what the call did is unknown: {message}"
    fail(
        message,
        sql=help_sql,
        as_json=engine.as_json,
        exit_code=exit_code,
        facts={"code": error.code, "sqlstate": error.sqlstate, "details": error.details},
        on_one_line=engine.is_stream,
    )


def _is_bad_argument(error: errors.ValidationError) -> bool:
    """Whether a value cannot be right, whoever says it; a credential can be, for somebody else."""
    return (error.code or "").startswith("invalid_") and not isinstance(error, errors.InvalidTokenError)


def is_connection_loss(error: errors.FlowFabricError) -> bool:
    """Whether a call failed because the server went away, and not because of what was asked."""
    if not isinstance(error, errors.TransportError):
        return isinstance(error, UnreachableError)
    return error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))


def _explain_denial(engine: Engine, error: errors.FlowFabricError) -> tuple[str, str | None]:
    """Who may do what was denied; the catalogue of the database knows, and everybody may read it."""
    unknown = f"{error}: ask the owner of the installation for the right to do this."
    try:
        granted = _roles_that_may(engine.connection, error.function)
    except (psycopg.Error, UnreachableError):
        return unknown, None
    # Of the roles that may call it, those that may call it like this: a worker may cancel only what it holds.
    sufficient = error.details.get("roles", granted)
    needed = [role for role in map("flowfabric_{}".format, SMALLEST_FIRST) if role in granted & {*sufficient}]
    if not needed:
        return unknown, None
    user = engine.connection.info.user
    return (
        f"{user} may not use {error.function}: connect as a member of {' or '.join(needed)}.",
        sql.SQL("grant {} to {};\n")
        .format(sql.Identifier(needed[0]), sql.Identifier(user))
        .as_string(engine.connection),
    )


def _roles_that_may(connection: psycopg.Connection[Any], name: str | None) -> set[str]:
    """The roles that hold a right on a function or a view of the engine."""
    roles = connection.execute(
        """
        select r.rolname
        from (
            select p.proname, p.proacl, p.pronamespace from pg_catalog.pg_proc p
            union all
            select c.relname, c.relacl, c.relnamespace from pg_catalog.pg_class c
        ) as o (name, acl, namespace)
        cross join lateral pg_catalog.aclexplode(o.acl) as a
        join pg_catalog.pg_roles as r on r.oid = a.grantee
        where o.namespace = 'flowfabric'::regnamespace and o.name = %s
        """,
        [name],
    ).fetchall()
    return {str(role) for (role,) in roles}
