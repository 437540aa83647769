"""Every public function with random arguments: only documented refusals, no crash, nothing half written.

Then the same functions where the server itself ends calls: under the stricter isolation levels, while others
hold what they need, and under timeouts that cut them off in the middle.

The same seed makes the same calls. `make fuzz` runs many more rounds, with a seed of its own that it prints;
FLOWFABRIC_FUZZ_ROUNDS and FLOWFABRIC_FUZZ_SEED do the same here.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from random import Random
from uuid import UUID

import psycopg
import pytest

from tests.attack.calling import Call, Outcome, objections, perform
from tests.attack.catalogue import Function, Parameter, documented_codes, public_functions
from tests.attack.crowd import crowded_calls
from tests.attack.digest import stored_digest
from tests.attack.effects import (
    Effect,
    Trial,
    effect_of,
    hold_every_row,
    hold_table,
    rewrite_tables,
    tried,
)
from tests.attack.effort import ROUNDS, SEED
from tests.attack.values import Values
from tests.attack.world import NOW_MS, World, build_world
from tests.conftest import Connect
from tests.support.cluster import Cluster, Connection

#: How many arguments of a sensible call are replaced; -1 stands for all of them.
DAMAGE = (0, 0, 1, 1, 1, 2, 3, -1)
#: The longest time for which a scanner may leave something undone that the invariants ask for.
SETTLE_MS = 61_000

MAX_INTEGER = 2**31 - 1

VIEWS = "select relname from pg_class where relkind = 'v' and relnamespace = 'flowfabric'::regnamespace"

#: How many sensible calls of a function are tried out until one does something.
TRIALS = 4
#: A round of the tests below makes several calls of every function, and takes longer.
LONG_ROUNDS = max(1, ROUNDS // 20)
SERIALIZATION_FAILURE = "40001"
QUERY_CANCELED = "57014"
LOCK_NOT_AVAILABLE = "55P03"
#: What locks a table with NOWAIT answers at once, whatever others hold.
NEVER_WAITING = {"ff_lock_tick_loop"}
#: For calls that need a table which is locked until they have ended: no machine is too slow or too fast for
#: them. The first setting ends a call that outlives its cancel; a scanner waits for 100 ms by itself.
CUT_OFF = "set local lock_timeout = '1s'; set local statement_timeout = '10ms'"
#: The second setting ends what waits for one row after the other, as a scanner does.
WITHOUT_PATIENCE = "set local lock_timeout = '1ms'; set local statement_timeout = '200ms'"
STRICTER_LEVELS = ("repeatable read", "serializable")
#: Once with leases that are held, once with everything due that a scanner looks for.
INSTANTS = {"now": NOW_MS, "a year later": NOW_MS + 365 * 86_400_000}


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

    def sensible(self, function: Function) -> Call:
        """A call that makes sense for something that there is."""
        arguments = self.world.arguments(function, self.values)
        if any(parameter.name == "max_ms" for parameter in function.parameters):
            # Otherwise the speed of the machine would decide how far a call gets.
            arguments["max_ms"] = str(MAX_INTEGER)
        return Call(function, arguments)

    def newcomer(self, function: Function) -> Call:
        """A sensible call with ids and keys of which there are none yet."""
        arguments = dict(self.sensible(function).arguments)
        for parameter in function.parameters:
            name, sql_type = parameter.name, parameter.sql_type
            is_name = name.endswith(("_id", "_key", "kid")) and sql_type in ("text", "uuid")
            if is_name and self.random.random() < 0.5:
                new = str(UUID(int=self.random.getrandbits(128), version=4))
                is_wire_id = name.endswith("execution_id") and sql_type == "text"
                arguments[name] = f"{{fp:86}}:{new}" if is_wire_id else new
        return Call(function, arguments)

    def trial(self, session: Connection, function: Function) -> Trial:
        """A sensible call, tried out in a session: one that writes if possible, or at least is accepted."""
        trials: list[Trial] = []
        while len(trials) < TRIALS and not any(any(trial.effect.written) for trial in trials):
            trials.append(tried(session, self.sensible(function)))
        return max(trials, key=lambda trial: (any(trial.effect.written), trial.effect.is_accepted))

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
        yield from unsound(self.connection)
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

    def _damaged(self, parameter: Parameter, sensible: str | None) -> str | None:
        if parameter.sql_type == "jsonb" and sensible is not None and self.random.random() < 0.7:
            return json.dumps(self.values.damaged(json.loads(sensible)))
        return self.values.draw(parameter.sql_type)


def unsound(connection: Connection) -> Iterator[str]:
    """What contradicts the state model once the scanners have run."""
    connection.execute(
        "select flowfabric.ff_test_set_clock('freeze', flowfabric.ff_now_ms() + %s)", [SETTLE_MS]
    )
    connection.execute(
        "select flowfabric.ff_tick(p_limit => 10000, p_force => true, p_max_ms => %s)", [MAX_INTEGER]
    )
    for finding in connection.execute("select * from flowfabric.ff_check_invariants()").fetchall():
        yield f"after the round: {finding}"
    for (view,) in connection.execute(VIEWS).fetchall():
        try:
            with connection.transaction():
                connection.execute(f"select * from flowfabric.{view}".encode()).fetchall()
        except psycopg.Error as error:
            yield f"after the round: {view} cannot be read: {error}"


def differences(
    trial: Trial,
    outcome: Outcome,
    effect: Effect,
    documented: Mapping[str, frozenset[str]],
    circumstances: Collection[str],
) -> Iterator[str]:
    """What is wrong with a disturbed call: it does all of what it did undisturbed, or ends and says why."""
    yield from objections(trial.call, outcome, documented, circumstances)
    if effect != trial.effect and effect.answer not in circumstances:
        yield f"{trial.call}: {effect} instead of {trial.effect}"


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


@pytest.mark.parametrize("now_ms", INSTANTS.values(), ids=INSTANTS)
@pytest.mark.parametrize("level", STRICTER_LEVELS)
def test_a_change_that_a_transaction_does_not_see_ends_the_call(
    connect: Connect, level: str, now_ms: int
) -> None:
    subject, rival = connect(autocommit=False), connect()
    fuzzer = Fuzzer(rival, Random(SEED))
    rival.execute("select flowfabric.ff_test_set_clock('freeze', %s)", [now_ms])
    tables = sorted(stored_digest(rival))
    wrong: list[str] = []
    ended: set[str] = set()
    # A tick locks the row of a scanner first, and would get no further.
    spared = ["ff_scanner"]
    for _ in range(LONG_ROUNDS):
        trials = [fuzzer.trial(subject, function) for function in fuzzer.functions]
        subject.execute(f"set transaction isolation level {level}")
        subject.execute("select from flowfabric.ff_exec_core")  # From here on it sees what is there now.
        rewrite_tables(rival, spared=spared)
        for trial in trials:
            outcome, effect = effect_of(subject, trial.call)
            wrong += differences(trial, outcome, effect, fuzzer.documented, {SERIALIZATION_FAILURE})
            if effect.answer == SERIALIZATION_FAILURE:
                ended.add(trial.call.function.name)
        subject.rollback()
        spared = fuzzer.random.sample(tables, len(tables) // 2)
    assert not wrong, f"FLOWFABRIC_FUZZ_SEED={SEED}\n" + "\n".join(wrong[:20])
    assert len(ended) > len(fuzzer.functions) * 0.3


@pytest.mark.parametrize("level", STRICTER_LEVELS)
def test_the_same_call_by_somebody_else_just_before_is_no_internal_error(server: Cluster, level: str) -> None:
    wrong: list[str] = []
    for number in range(LONG_ROUNDS):
        with (
            server.database(server.template) as dsn,
            psycopg.connect(dsn) as subject,
            psycopg.connect(dsn, autocommit=True) as rival,
        ):
            fuzzer = Fuzzer(rival, Random(SEED + number))
            calls = [make(f) for f in fuzzer.functions for make in (fuzzer.sensible, fuzzer.newcomer)]
            for call in fuzzer.random.sample(calls, len(calls)):
                subject.execute(f"set transaction isolation level {level}")
                subject.execute("select from flowfabric.ff_exec_core")
                with rival.transaction():
                    rival.execute(f"set transaction isolation level {level}")
                    first = perform(rival, call, keep=True)
                second = perform(subject, call, keep=True)
                for outcome in (first, second):
                    wrong += objections(call, outcome, fuzzer.documented, {SERIALIZATION_FAILURE})
                try:
                    subject.commit()
                except psycopg.errors.SerializationFailure:
                    subject.rollback()
            wrong += unsound(rival)
    assert not wrong, f"FLOWFABRIC_FUZZ_SEED={SEED}\n" + "\n".join(wrong[:20])


def test_a_call_that_is_cut_off_at_any_table_ends_and_leaves_nothing_behind(connect: Connect) -> None:
    subject, holder = connect(autocommit=False), connect(autocommit=False)
    fuzzer = Fuzzer(connect(), Random(SEED))
    before = stored_digest(fuzzer.connection)
    wrong: list[str] = []
    cut_off: set[str] = set()
    for _ in range(LONG_ROUNDS):
        for function in fuzzer.functions:
            trial = fuzzer.trial(subject, function)
            if not trial.tables or function.name in NEVER_WAITING:
                continue
            hold_table(holder, fuzzer.random.choice(trial.tables))
            effect = effect_of(subject, trial.call, settings=CUT_OFF)[1]
            holder.rollback()
            if effect.answer != QUERY_CANCELED:
                wrong.append(f"{trial.call}: {effect} instead of a cancel")
            if stored_digest(subject) != before:
                wrong.append(f"{trial.call}: something was written")
            subject.rollback()
            cut_off.add(function.name)
    assert not wrong, f"FLOWFABRIC_FUZZ_SEED={SEED}\n" + "\n".join(wrong[:20])
    assert len(cut_off) > len(fuzzer.functions) * 0.8


@pytest.mark.parametrize("now_ms", INSTANTS.values(), ids=INSTANTS)
def test_rows_that_somebody_holds_lead_to_documented_refusals_or_to_a_timeout(
    connect: Connect, now_ms: int
) -> None:
    subject, holder = connect(autocommit=False), connect(autocommit=False)
    fuzzer = Fuzzer(connect(), Random(SEED))
    fuzzer.connection.execute("select flowfabric.ff_test_set_clock('freeze', %s)", [now_ms])
    before = stored_digest(fuzzer.connection)
    hold_every_row(holder)
    wrong: list[str] = []
    ended: set[str] = set()
    for _ in range(LONG_ROUNDS):
        for function in fuzzer.functions:
            call = fuzzer.sensible(function)
            outcome, effect = effect_of(subject, call, settings=WITHOUT_PATIENCE)
            wrong += objections(call, outcome, fuzzer.documented, {LOCK_NOT_AVAILABLE, QUERY_CANCELED})
            if effect.answer in (LOCK_NOT_AVAILABLE, QUERY_CANCELED):
                ended.add(function.name)
            if stored_digest(subject) != before:
                wrong.append(f"{call}: something was written")
        subject.rollback()
    assert not wrong, f"FLOWFABRIC_FUZZ_SEED={SEED}\n" + "\n".join(wrong[:20])
    assert len(ended) > len(fuzzer.functions) * 0.2


def test_a_call_over_much_input_is_done_or_is_cut_off_without_a_trace(connect: Connect) -> None:
    subject = connect(autocommit=False)
    fuzzer = Fuzzer(connect(), Random(SEED))
    trials = [tried(subject, call) for call in crowded_calls(fuzzer.connection)]
    before = stored_digest(fuzzer.connection)
    wrong: list[str] = []
    for _ in range(ROUNDS // 4):
        for trial in trials:
            # Whether that is enough for the call does not matter: either end of it is looked at.
            timeout_ms = fuzzer.random.choice((1, 2, 3, 5, 10, 20, 40))
            settings = f"set local statement_timeout = '{timeout_ms}ms'"
            outcome, effect = effect_of(subject, trial.call, settings=settings)
            wrong += differences(trial, outcome, effect, fuzzer.documented, {QUERY_CANCELED})
            if stored_digest(subject) != before:
                wrong.append(f"{trial.call}: something was written")
        subject.rollback()
    assert not wrong, f"FLOWFABRIC_FUZZ_SEED={SEED}\n" + "\n".join(wrong[:20])
    assert all(any(trial.effect.written) for trial in trials)


def test_no_handler_catches_a_cancel(db: Connection) -> None:
    # WHEN OTHERS leaves a cancel alone, so it can only be caught by its name, its code or its class.
    catching = db.execute(
        "select p.oid::regprocedure::text from pg_proc as p"
        " where p.pronamespace = 'flowfabric'::regnamespace"
        r" and p.prosrc ~* '\m(query_canceled|operator_intervention|57014|57000)\M'"
    )
    assert catching.fetchall() == []
