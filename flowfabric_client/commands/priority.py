"""`flowfabric priority`: move an execution within its queue."""

from __future__ import annotations

import click

from flowfabric_client.commands import examples
from flowfabric_client.commands._engine import Engine, engine_command
from flowfabric_client.commands._options import execution_argument


@click.command(epilog=examples("flowfabric priority '{fp:86}:6f1c...' 100"))
@execution_argument
@click.argument("new_priority", metavar="PRIORITY", type=int)
@engine_command
def priority(engine: Engine, execution_id: str, new_priority: int) -> None:
    """Move a waiting execution within the queue of its lane.

    A greater number is claimed earlier; numbers out of range are brought into it.
    """
    done = engine.client.change_priority(execution_id, new_priority)
    engine.print_done(f"{execution_id} has priority {done.new_priority}; it had {done.old_priority}.", done)
