"""`flowfabric replay`: run an ended execution once more."""

from __future__ import annotations

import click

from flowfabric_client.commands import examples
from flowfabric_client.commands._engine import Engine, engine_command
from flowfabric_client.commands._options import execution_argument, reason_option


@click.command(
    epilog=examples(
        "flowfabric replay '{fp:86}:6f1c...' --reason 'provider is back'",
        "flowfabric replay '{fp:86}:6f1c...' --force --reason 'wrong rate' --by ada",
    )
)
@execution_argument
@reason_option
@click.option("--by", "requested_by", help="Who asks for it; kept with the attempt and the operator event.")
@click.option("--force", is_flag=True, help="Replay a completed execution too: its result is given up.")
@engine_command
def replay(
    engine: Engine, *, execution_id: str, reason: str | None, requested_by: str | None, force: bool
) -> None:
    """Run an ended execution once more.

    It has its full retries again. A member of a flow whose dependencies are open waits for them again. What
    its first end has set off downstream stays as it is.
    """
    done = engine.client.replay_execution(execution_id, reason=reason, requested_by=requested_by, force=force)
    given_up = " Its result is given up." if done.result_given_up else ""
    engine.print_done(
        f"{execution_id} is {done.public_state} again, replay {done.replay_count}.{given_up}", done
    )
