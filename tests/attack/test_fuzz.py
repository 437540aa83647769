"""Every public function with random arguments: only documented refusals, no crash, nothing half written.

The same seed makes the same calls. `make fuzz` runs many more rounds, with a seed of its own that it prints;
FLOWFABRIC_FUZZ_ROUNDS and FLOWFABRIC_FUZZ_SEED do the same here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random

import pytest

from tests.attack.calling import Call, Outcome, objections, perform
from tests.attack.catalogue import Function, Parameter, documented_codes, public_functions
from tests.attack.digest import stored_digest
from tests.attack.effort import ROUNDS, SEED
from tests.attack.values import Values
from tests.attack.world import World, build_world
from tests.conftest import Connect
from tests.support.cluster import Connection

#: How many arguments of a sensible call are replaced; -1 stands for all of them.
DAMAGE = (0, 0, 1, 1, 1, 2, 3, -1)
#: The longest time for which a scanner may leave something undone that the invariants ask for.
SETTLE_MS = 61_000


class Fuzzer:
    """Makes calls that nearly make sense."""

    def __init__(self, connection: Connection, random: Random) -> None:
        self.connection = connection
        self.random = random
        self.values = Values(random)
        self.world: World = build_world(connection)
        # A procedure that commits cannot be called inside the transaction in which a round is undone.
        self.functions = [f for f in public_functions(connection) if not f.is_procedure]
        self.documented = documented_codes()
        self.accepted: set[str] = set()

    def call(self, function: Function) -> Call:
        """A sensible call with some of its arguments replaced."""
        arguments = self.world.arguments(function, self.values)
        parameters = function.parameters
        number = self.random.choice(DAMAGE)
        for parameter in self.random.sample(
            parameters, len(parameters) if number < 0 else min(number, len(parameters))
        ):
            arguments[parameter.name] = self._damaged(parameter, arguments.get(parameter.name))
        return Call(function, arguments)

    def round(self) -> Iterator[str]:
        """Call every function once, in any order, from the same beginning; yield what is wrong."""
        self.connection.execute("savepoint before_round")
        for function in self.random.sample(self.functions, len(self.functions)):
            yield from self._judged(self.call(function), keep=self.random.random() < 0.3)
        yield from self._unsound()
        self.connection.execute("rollback to savepoint before_round; release savepoint before_round")

    def _judged(self, call: Call, *, keep: bool) -> Iterator[str]:
        is_batch = any(p.name == "lease_ids" for p in call.function.parameters)
        before = stored_digest(self.connection) if is_batch else None
        outcome: Outcome = perform(self.connection, call, keep=keep or is_batch)
        if outcome.error is None:
            self.accepted.add(call.function.name)
        yield from objections(call, outcome, self.documented)
        if before and outcome.refuses_every_item and stored_digest(self.connection) != before:
            yield f"{call}: every item was refused, and yet something was written"

    def _unsound(self) -> Iterator[str]:
        """What contradicts the state model once the scanners have run."""
        self.connection.execute(
            "select flowfabric.ff_test_set_clock('freeze', flowfabric.ff_now_ms() + %s)", [SETTLE_MS]
        )
        self.connection.execute("select flowfabric.ff_tick(p_limit => 10000, p_force => true)")
        for finding in self.connection.execute("select * from flowfabric.ff_check_invariants()").fetchall():
            yield f"after the round: {finding}"

    def _damaged(self, parameter: Parameter, sensible: str | None) -> str | None:
        if parameter.sql_type == "jsonb" and sensible is not None and self.random.random() < 0.7:
            return json.dumps(self.values.damaged(json.loads(sensible)))
        return self.values.draw(parameter.sql_type)


@pytest.fixture
def fuzzer(connect: Connect) -> Fuzzer:
    """A fuzzer in one transaction, which is thrown away."""
    connection = connect(autocommit=False)
    # A call that hangs is a finding; none takes a hundredth of this.
    connection.execute("set statement_timeout = '30s'")
    return Fuzzer(connection, Random(SEED))


def test_random_arguments_meet_documented_refusals_only(fuzzer: Fuzzer) -> None:
    wrong = [f"round {number}: {finding}" for number in range(ROUNDS) for finding in fuzzer.round()]
    assert not wrong, f"FLOWFABRIC_FUZZ_SEED={SEED}\n" + "\n".join(wrong[:20])
    # Otherwise the calls were so senseless that they proved nothing.
    assert len(fuzzer.accepted) > len(fuzzer.functions) * 0.8
