"""`flowfabric signal`: deliver a signal, with the token of a waitpoint or by decision of an operator."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import click

from flowfabric_client import errors, rows
from flowfabric_client.commands import examples
from flowfabric_client.commands._engine import Engine, NotThereError, engine_command
from flowfabric_client.commands._options import execution_argument, read_bytes


@click.command(
    epilog=examples(
        "FLOWFABRIC_TOKEN=... flowfabric signal '{fp:86}:6f1c...' approved --waitpoint 0b9e...",
        'flowfabric signal $ID approved \'{"by": "ada"}\' --waitpoint $WAITPOINT --token - < token.txt',
        "flowfabric signal '{fp:86}:6f1c...' approved --as-operator",
    )
)
@execution_argument
@click.argument("signal_name", metavar="SIGNAL")
@click.argument("payload", metavar="[PAYLOAD|@FILE|-]", required=False)
@click.option("--waitpoint", "waitpoint_id", type=click.UUID, help="The waitpoint that the token is for.")
@click.option(
    "--token",
    envvar="FLOWFABRIC_TOKEN",
    metavar="TOKEN|@FILE|-",
    help="The token; @FILE, - for standard input, or FLOWFABRIC_TOKEN keep it out of the shell's history.",
)
@click.option("--as-operator", is_flag=True, help="Answer without a token; needs flowfabric_operator.")
@click.option("--from", "source_identity", default="", help="Who sends it; kept with the signal.")
@click.option("--key", "idempotency_key", help="Deliver at most once under this key.")
@engine_command
def signal(
    engine: Engine,
    *,
    execution_id: str,
    signal_name: str,
    payload: str | None,
    waitpoint_id: UUID | None,
    token: str | None,
    as_operator: bool,
    source_identity: str,
    idempotency_key: str | None,
) -> None:
    """Deliver a signal to an execution that waits for it.

    The payload is an argument, a file, or standard input. An operator needs no token, sends no payload, and
    may leave the waitpoint out if only one is open.
    """
    if as_operator:
        if payload is not None:
            raise click.UsageError("--as-operator sends no payload: leave it out, or use a token.")
        done = _answer(engine, execution_id, signal_name, waitpoint_id, source_identity, idempotency_key)
    else:
        if waitpoint_id is None:
            raise click.UsageError(
                "--waitpoint is missing: a token is for one waitpoint. Or use --as-operator."
            )
        if payload == token == "-":
            raise click.UsageError("Standard input is either the payload or the token.")
        done = _deliver(
            engine,
            execution_id,
            waitpoint_id,
            _read_token(token),
            signal_name,
            payload=read_bytes(payload),
            source_identity=source_identity,
            idempotency_key=idempotency_key,
        )
    if done.outcome == "duplicate":
        engine.print_done(f"{signal_name} had been delivered to {execution_id} before.", done)
    else:
        engine.print_done(f"{signal_name} is delivered to {execution_id}: {done.effect}.", done)


def _read_token(argument: str | None) -> str:
    token = (read_bytes(argument) or b"").decode(errors="replace").strip()
    if not token:
        raise click.UsageError("There is no token: give it as --token @FILE, --token - or FLOWFABRIC_TOKEN.")
    return token


def _deliver(
    engine: Engine,
    execution_id: str,
    waitpoint_id: UUID,
    token: str,
    signal_name: str,
    *,
    payload: bytes | None,
    source_identity: str,
    idempotency_key: str | None,
) -> rows.SignalDelivery:
    arguments: dict[str, Any] = {
        "payload": payload,
        "source_identity": source_identity,
        "idempotency_key": idempotency_key,
    }
    try:
        return engine.client.deliver_signal(execution_id, waitpoint_id, token, signal_name, **arguments)
    except errors.WaitpointPendingUseBufferScriptError:
        # The token is out before the suspension: the signal counts once the execution waits.
        return engine.client.buffer_signal_for_pending_waitpoint(
            execution_id, waitpoint_id, token, signal_name, **arguments
        )


def _answer(
    engine: Engine,
    execution_id: str,
    signal_name: str,
    waitpoint_id: UUID | None,
    source_identity: str,
    idempotency_key: str | None,
) -> rows.SignalDelivery:
    client = engine.client
    found = client.describe_execution(execution_id)
    if found is None:
        raise NotThereError(f"There is no execution {execution_id}: check the id.")
    if waitpoint_id is None:
        waitpoints = client.list_pending_waitpoints(execution_id)
        if not waitpoints:
            raise NotThereError(f"{execution_id} is {found.public_state} and has no open waitpoint.")
        if len(waitpoints) > 1:
            names = ", ".join(f"{row.waitpoint_id} ({row.waitpoint_key})" for row in waitpoints)
            raise click.UsageError(f"Several waitpoints are open, name one with --waitpoint: {names}.")
        waitpoint_id = waitpoints[0].waitpoint_id
    return client.deliver_approval_signal(
        execution_id,
        found.lane_id,
        waitpoint_id,
        signal_name,
        idempotency_key or str(uuid4()),
        source_identity=source_identity,
    )
