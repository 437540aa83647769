"""Running one of our SQL files so that a failure names its line."""

import selectors
from collections.abc import Iterable, Iterator

from psycopg import errors as pg
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

from flowfabric_client._sql import SqlFile
from flowfabric_client.install._connection import Connection
from flowfabric_client.install._errors import InstallError, StatementFailedError


def run_file(conn: Connection, file: SqlFile) -> None:
    """Send a whole file in one message, inside the transaction that is open.

    The server then splits it into statements by its own rules. Many errors carry no position, so this counts
    the statements that succeeded: an ordinary `execute` would keep only the error.
    """
    pgconn = conn.pgconn
    pgconn.send_query(file.text.encode())
    succeeded = 0
    failure = None
    for result in _results(pgconn):
        if result.status == ExecStatus.FATAL_ERROR:
            failure = pg.error_from_result(result)
        else:
            succeeded += 1
    if failure is not None:
        position = failure.diag.statement_position
        if position is not None:
            line = line_at(file.text, int(position) - 1)
        else:
            line = _line_of_statement(file.text, succeeded)
        raise StatementFailedError(file, line, failure)
    if conn.info.transaction_status != TransactionStatus.INTRANS:
        raise InstallError(
            f"{file.name} ends the transaction that it is loaded in: take its commit or rollback out."
        )


def _results(pgconn: PGconn) -> Iterator[PGresult]:
    """The results as they arrive; libpq's own waiting would stop every other thread of this process."""
    with selectors.DefaultSelector() as selector:
        selector.register(pgconn.socket, selectors.EVENT_READ)
        while True:
            while pgconn.is_busy():
                selector.select()
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:
                return
            yield result


def line_at(text: str, offset: int) -> int:
    """The number of the line that holds the character at this offset."""
    return text.count("\n", 0, offset) + 1


def offsets_of(statements: Iterable[str], text: str) -> list[int]:
    """Where each statement, given in order and letter by letter, starts in its file."""
    offsets = []
    end = 0
    for statement in statements:
        start = text.index(statement, end)
        end = start + len(statement)
        offsets.append(start)
    return offsets


def first_code_offset(statement: str) -> int:
    """Where the SQL starts in a statement that comes with the comment lines before it."""
    offset = 0
    for line in statement.splitlines(keepends=True):
        if line.strip() and not line.lstrip().startswith("--"):
            return offset + len(line) - len(line.lstrip())
        offset += len(line)
    return 0


def _line_of_statement(text: str, index: int) -> int:
    # yoyo splits migrations with the same library; it is only needed once something has gone wrong.
    import sqlparse  # noqa: PLC0415

    statements = sqlparse.split(text)
    if index >= len(statements):
        return 1
    start = offsets_of(statements, text)[index]
    return line_at(text, start + first_code_offset(statements[index]))
