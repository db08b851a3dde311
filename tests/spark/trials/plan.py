"""What happens in one run of a job: all of it follows from the number of the run, its seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

DRIVER, PYTHON, JVM, STANDBY = "driver", "python", "jvm", "standby"
EXECUTOR, EXECUTORS = "executor", "executors"
LEADER, REPLICA = "leader", "replica"
"""Whom a fault meets: the driver that leads as a whole, its Python or its JVM alone (of ``milepost run``: supervisor or
command), or one that stands by; one executor or all; the replica that leads, which may be the only one, or another."""

KILL, FREEZE, TERMINATE = "kill", "freeze", "terminate"
HOWS = (KILL, FREEZE, TERMINATE)
ON_DRIVERS, ON_EXECUTORS, ON_SERVICE = (DRIVER, PYTHON, JVM), (EXECUTOR, EXECUTORS), (LEADER, REPLICA)

LEAD, RUN = "lead", "run"
"""Ways in: `milepost.spark.lead` in Python, or a jar in Java under ``milepost run``."""

KINDS = ("stateless", "aggregation", "join", "deduplication", "transform")
PROVIDERS = ("hdfs", "rocksdb", "rocksdb-changelog", "rocksdb-v2")
SOURCES = ("files", "kafka", "rate")
REPLICAS, FORWARDER, NAME = "replicas", "forwarder", "name"
ADDRESSES = (REPLICAS, FORWARDER, NAME)
"""Where drivers and executors find the service.

`REPLICAS`: at the address of each replica. `FORWARDER`: at one address, where a forwarder of TCP passes each new
connection on to the replica that leads. `NAME`: at the name of a host, which no JVM can resolve for some seconds of
each round.
"""
ROUNDS = 5
_AWAY_SECONDS = (0.5, 12.0)
_MOMENT_SECONDS = (0.0, 3.0)
_AT_ONCE = 0.25


@dataclass(frozen=True)
class Round:
    """One fault, ``after`` seconds from when batches flow.

    ``seconds`` is how long the service is away, or somebody stands still; 0: until another driver leads.
    With ``outage`` the leader of the service is killed at the same moment, and away for so long.
    """

    how: str
    whom: str
    after: float
    seconds: float = 0.0
    outage: float = 0.0

    def __str__(self) -> str:
        lasting = f" {self.seconds:.1f} s" if self.seconds else ""
        both = f" and kill {LEADER} {self.outage:.1f} s" if self.outage else ""
        return f"{self.how} {self.whom}{lasting}{both} (after {self.after:.1f} s)"


@dataclass(frozen=True)
class Plan:
    """A job and the rounds that it goes through; ``executors`` is 0 where tasks run in the driver's JVM."""

    seed: int
    kind: str
    provider: str
    source: str
    way: str
    executors: int
    replicas: int
    address: str
    rounds: tuple[Round, ...]

    @property
    def job(self) -> str:
        """The name of its store."""
        return f"trial-{self.seed}"

    def __str__(self) -> str:
        where = f"{self.executors} executors" if self.executors else "local[2]"
        service = "3 replicas" if self.replicas > 1 else "1 server"
        reached = "" if self.address == REPLICAS else f" by {self.address}"
        return f"{self.kind}, {self.provider}, {self.source}, {self.way}, {where}, {service}{reached}"


def plan(seed: int, rounds: int = ROUNDS) -> Plan:
    """The run of this number. Runs in a row take turns with queries, state stores, sources and executors."""
    source = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    turn = seed // len(KINDS)
    providers = PROVIDERS[1:] if kind == "transform" else PROVIDERS  # which Spark keeps in RocksDB alone
    spread = (turn + seed + turn // len(PROVIDERS)) % len(KINDS) < 3  # of any five in a row, three
    replicas = source.choice((1, 1, 3))
    way = source.choice((LEAD, LEAD, RUN)) if kind != "transform" else LEAD
    return Plan(
        seed=seed,
        kind=kind,
        provider=providers[turn % len(providers)],
        source=SOURCES[turn % len(SOURCES)],
        way=way,
        executors=2 if spread else 0,
        replicas=replicas,
        address=random.Random(f"address {seed}").choice(ADDRESSES),
        rounds=tuple(_rounds(way, spread, replicas, rounds, source)),
    )


def _rounds(way: str, spread: bool, replicas: int, count: int, source: random.Random) -> list[Round]:
    """Different faults as long as there are any; those of executors more often, where there are executors."""
    met = [*ON_DRIVERS, STANDBY, LEADER, *([REPLICA] if replicas > 1 else []), *(ON_EXECUTORS * 2 if spread else [])]
    deck = [(how, whom) for whom in met for how in HOWS]
    source.shuffle(deck)
    return [_round(way, *deck[number % len(deck)], source) for number in range(count)]


def _round(way: str, how: str, whom: str, source: random.Random) -> Round:
    after, seconds, outage = (
        round(source.uniform(*span), 2) for span in (_MOMENT_SECONDS, _AWAY_SECONDS, _AWAY_SECONDS)
    )
    at_once = source.random() < _AT_ONCE and whom in (*ON_DRIVERS, STANDBY)
    # A command that hangs is not noticed by `milepost run`: it goes on by itself.
    lasts = whom in ON_SERVICE or (whom == STANDBY and how == FREEZE) or (way, how, whom) == (RUN, FREEZE, JVM)
    return Round(how, whom, after, seconds if lasts else 0.0, outage if at_once else 0.0)
