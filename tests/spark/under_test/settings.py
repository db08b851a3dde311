"""The settings that a driver of these tests gets on its command line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from tests.spark.trials.reading import Reading


@dataclass(frozen=True)
class Setup:
    """A driver under test.

    ``pause`` is a point of `tests.spark.under_test.hooks` at whose ``pause_at``-th passing it stands still until the
    file ``go`` is there. ``throttle`` is slept in each batch. Once it has published ``most`` batches (0: no limit) it
    stands still until the file ``on`` is there, so that those after it find input. ``blind`` takes away its view of the
    clock, so that nothing but the service's refusal tells it that its session is over. ``spark`` are settings of
    Spark's. With ``urls`` those are the addresses of the service, and with ``reading`` that is the input; each row that
    comes out of a task takes ``slow`` milliseconds. ``scratch`` is the one directory in which it keeps files of its
    own. ``jvm_timeout``, ``batch_timeout`` and ``grace`` are as of `milepost.spark.lead`; ``stuck`` replaces the SDK's
    limit for a batch that no stop ends. Times in seconds.
    """

    url: str
    store: str
    kind: str
    provider: str
    input: str
    output: str
    scratch: str
    events: str
    java_options: str
    go: str = ""
    pause: str = ""
    pause_at: int = 1
    throttle: float = 0.0
    most: int = 0
    on: str = ""
    blind: bool = False
    ttl: float = 8.0
    jvm_timeout: float = 60.0
    batch_timeout: float | None = None
    grace: float = 60.0
    stuck: float = 60.0
    spark: dict[str, str] = field(default_factory=dict)
    available_now: bool = True
    urls: tuple[str, ...] = ()
    reading: Reading | None = None
    slow: int = 0

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Setup:
        raw = json.loads(text)
        reading = None if raw["reading"] is None else Reading.decode(raw["reading"])
        return cls(**{**raw, "urls": tuple(raw["urls"]), "reading": reading})
