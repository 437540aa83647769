"""Calls that wait for a row only for a moment.

A stranger's transaction can hold a row for as long as it likes. A call that waits for it takes a connection
away from the rest of the worker, so every such wait has an end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from flowfabric_client._call import Call
from flowfabric_client._steps import once
from flowfabric_client.aio import AsyncClient
from flowfabric_client.errors import FlowFabricError, RetryExhaustedError

T = TypeVar("T")


class HeldElsewhereError(Exception):
    """Another session holds a row that the call needs; nothing was changed."""


async def ask(client: AsyncClient, call: Call[T], wait_ms: int, *, key: str = "execution_id") -> T:
    """Make a call once, and wait no longer than this for any lock.

    Args:
        client: A client on a pool.
        call: What to ask.
        wait_ms: The longest wait.
        key: A text parameter of the call.

    Raises:
        HeldElsewhereError: the wait was longer.
        FlowFabricError: the database refuses the call, or cannot be reached.
    """
    # The timeout is set while the arguments are evaluated, and ends with the transaction of the statement. It
    # takes no round trip of its own, and a pooler cannot give it to anybody else.
    parameter = f"%({key})s::text"
    timeout = f"concat({parameter}, left(set_config('lock_timeout', '{wait_ms}ms', true), 0))"
    if call.sql.count(parameter) != 1:
        raise ValueError(f"{call.function} has no text parameter {key}")
    try:
        rows = await client._carry_out(once(replace(call, sql=call.sql.replace(parameter, timeout))))
    except FlowFabricError as error:
        if isinstance(error, RetryExhaustedError) and error.details.get("last_sqlstate") == "55P03":
            raise HeldElsewhereError from error
        raise
    return rows[0]
