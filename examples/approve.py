"""The other side of examples/approval.py: answers the latest request, with plain SQL.

Its database role needs to be a member of `flowfabric_signaller`, and nothing else. The database refuses
a wrong token with SQLSTATE ZV009 (`invalid_token`); docs/errors.md lists what else it can say.

    python examples/approve.py yes|no

The same in psql:

    select r.* from approval_request as a
    cross join flowfabric.ff_deliver_signal(a.execution_id, a.waitpoint_id, a.token, 'decided',
        p_payload => '{"approved": true, "by": "grace"}') as r
    where a.id = 1;
"""

from __future__ import annotations

import json
import os
import sys

import psycopg

LATEST = "select execution_id, waitpoint_id, token, question from approval_request order by id desc limit 1"
DELIVER = """
    select effect from flowfabric.ff_deliver_signal(
        p_execution_id => %s, p_waitpoint_id => %s, p_waitpoint_token => %s,
        p_signal_name => 'decided', p_payload => %s)"""


def main(answer: str) -> None:
    """Answer the latest request."""
    with psycopg.connect(os.environ.get("FLOWFABRIC_DSN", "")) as connection:
        request = connection.execute(LATEST).fetchone()
        if request is None:
            sys.exit("There is no request.")
        *target, question = request
        decision = json.dumps({"approved": answer == "yes", "by": connection.info.user}).encode()
        delivered = connection.execute(DELIVER, [*target, decision]).fetchone()
        print(question, answer, delivered)


if __name__ == "__main__":
    if sys.argv[1:] not in (["yes"], ["no"]):
        sys.exit("Say yes or no.")
    main(sys.argv[1])
