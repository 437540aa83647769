"""A run: every scenario, each system in turn within each repeat, so that drift favours nobody."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import psycopg

from bench.hosts import HostError, HostProcess
from bench.lab import Lab
from bench.results import Failure, Key, Results
from bench.scenarios import Case, Scale, Scenario, Seed
from bench.server import BenchServer
from bench.systems import Runtime, System

OnStep = Callable[[str], None]


class Runner:
    """Holds a host and a template database per system. What fails leaves its scenario, not the run."""

    def __init__(self, server: BenchServer, systems: Sequence[System], seed: int) -> None:
        self._server = server
        self._random = random.Random(seed)
        self._systems = {system.name: system for system in systems}
        self._stack = ExitStack()
        self._seeds: dict[tuple[str, Seed], str] = {}
        self._hosts: dict[str, HostProcess] = {}
        self._tasks: dict[str, frozenset[str]] = {}
        self.versions: dict[str, str] = {}
        self.results = Results()

    def install(self, unavailable: Mapping[Runtime, str], on_step: OnStep) -> None:
        """Start every host and install every system into its template."""
        for name, system in list(self._systems.items()):
            on_step(f"installing {name}")
            if system.runtime in unavailable:
                self._give_up(name, unavailable[system.runtime])
                continue
            try:
                answer = self._host(name).ask("hello")
                self._host(name).ask("install", dsn=self._server.create_template(name))
            except HostError as error:
                self._give_up(name, str(error))
            else:
                self.versions[name] = answer["version"]
                self._tasks[name] = frozenset(answer["tasks"])

    def participants(self, scenario: Scenario) -> list[str]:
        """The systems that can do what a scenario asks."""
        return [
            name
            for name, system in self._systems.items()
            if self._tasks[name].issuperset(scenario.tasks)
            and (not system.only_in or scenario.name in system.only_in)
        ]

    def run(self, scenario: Scenario, scale: Scale, repeats: int, on_step: OnStep) -> None:
        """All repeats of a scenario."""
        cases = scenario.cases(scale)
        alive = self.participants(scenario)
        for repeat in range(repeats):
            for case in cases:
                for name in self._random.sample(alive, len(alive)):
                    on_step(f"{scenario.name}, {case.name}: {name} ({repeat + 1} of {repeats})")
                    self._server.checkpoint()
                    try:
                        with self._lab(name, case) as lab:
                            metrics = scenario.measure(lab, case)
                    except (HostError, psycopg.Error, TimeoutError) as error:
                        self._fail(name, scenario.name, str(error).partition("\n")[0])
                        alive.remove(name)
                    else:
                        self.results.add(Key(scenario.name, case.name, name), repeat, metrics)

    @contextmanager
    def _lab(self, name: str, case: Case) -> Iterator[Lab]:
        host = self._host(name)
        if case.seed is None:
            with self._server.clone(name) as database:
                yield Lab(self._server, host, database)
        else:
            reference = self._seeded(name, case.reference) if case.reference else None
            yield Lab(self._server, host, self._seeded(name, case.seed), reference)

    def _seeded(self, name: str, seed: Seed) -> str:
        if (name, seed) not in self._seeds:
            database = self._seeds[name, seed] = self._stack.enter_context(self._server.clone(name))
            Lab(self._server, self._host(name), database).run("seed", **vars(seed))
            self._server.checkpoint()
        return self._seeds[name, seed]

    def close(self) -> None:
        """End every host, and drop what is left."""
        self._stack.close()
        for host in self._hosts.values():
            host.kill()
        self._hosts.clear()

    def _host(self, name: str) -> HostProcess:
        if name not in self._hosts:
            self._hosts[name] = HostProcess(self._systems[name])
        return self._hosts[name]

    def _give_up(self, name: str, reason: str) -> None:
        self._fail(name, None, reason)
        del self._systems[name]

    def _fail(self, name: str, scenario: str | None, reason: str) -> None:
        self.results.failures.append(Failure(name, scenario, reason))
        if name in self._hosts:
            self._hosts.pop(name).kill()
