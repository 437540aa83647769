"""What can end an installation, as one sentence for the person who started it."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors as pg

from flowfabric_client._sql import SqlFile, SqlSourceError


class InstallError(Exception):
    """Why an installation was refused or failed; the message is one sentence.

    `sql` holds statements that somebody with more privileges can run to help, if there are any.
    """

    def __init__(self, message: str, *, sql: str | None = None) -> None:
        super().__init__(message)
        self.sql = sql


class UnreachableError(InstallError):
    """No connection could be made."""


class UnsafeSchemaError(InstallError):
    """Another role could let code of its own run with the rights of the installer; nothing was changed."""


class StatementFailedError(InstallError):
    """A statement of one of our files failed; the message starts with `file:line`."""

    def __init__(self, file: SqlFile, line: int, cause: psycopg.Error) -> None:
        super().__init__(f"{file.name}:{line}: {_explain(cause)}")
        self.cause = cause


@contextmanager
def as_install_errors() -> Iterator[None]:
    """Turn whatever the database or the package's files refuse into an `InstallError`."""
    try:
        yield
    except psycopg.Error as exc:
        raise InstallError(_explain(exc)) from exc
    except SqlSourceError as exc:
        raise InstallError(str(exc)) from exc


def server_message(exc: psycopg.Error) -> str:
    """The server's message with its detail, on one line."""
    text = exc.diag.message_primary or str(exc) or type(exc).__name__
    if exc.diag.message_detail:
        text = f"{text}: {exc.diag.message_detail}"
    return " ".join(text.split())


def _explain(exc: psycopg.Error) -> str:
    message = server_message(exc)
    match exc:
        case pg.LockNotAvailable():
            return (
                f"{message}: another session held a lock for too long; nothing of this step was done, "
                "so run it again at a quieter time or with a longer lock timeout."
            )
        case pg.InvalidFunctionDefinition() | pg.WrongObjectType() if _wants_drop(exc):
            return (
                f"{message}: a migration must drop the old signature before the function can be created anew."
            )
        case pg.DependentObjectsStillExist():
            return f"{message}; drop what depends on it, migrate, and create it again."
        case pg.InsufficientPrivilege():
            return f"{message}: connect as the owner of the installation or as a member of that role."
    return message


def _wants_drop(exc: psycopg.Error) -> bool:
    # The server translates its messages, but not the statement inside a hint. A function that becomes a
    # procedure gets no hint, and the SQLSTATE has no other use in a file of functions.
    return isinstance(exc, pg.WrongObjectType) or "DROP " in (exc.diag.message_hint or "")
