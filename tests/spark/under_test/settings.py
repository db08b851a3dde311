"""The settings that a driver of these tests gets on its command line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Setup:
    """A driver under test.

    ``pause`` is a point of `tests.spark.under_test.hooks` at whose ``pause_at``-th passing it stands still until the
    file ``go`` is there. ``throttle`` is slept in each batch. Once it has published ``most`` batches (0: no limit) it
    stands still until the file ``on`` is there, so that those after it find input. ``blind`` takes away its view of the
    clock, so that nothing but the service's refusal tells it that its session is over. ``inline_bytes`` and
    ``max_layers`` replace the SDK's limits: small ones bring layers and merges about with little state. ``spark`` are
    settings of Spark's. ``jvm_timeout``, ``batch_timeout`` and ``grace`` are as of `milepost.spark.lead`; ``stuck``
    replaces the SDK's limit for a batch that no stop ends. Times in seconds.
    """

    url: str
    store: str
    kind: str
    provider: str
    input: str
    output: str
    workdir: str
    events: str
    java_options: str
    go: str = ""
    pause: str = ""
    pause_at: int = 1
    throttle: float = 0.0
    most: int = 0
    on: str = ""
    blind: bool = False
    inline_bytes: int = 8192
    max_layers: int = 64
    ttl: float = 8.0
    jvm_timeout: float = 60.0
    batch_timeout: float | None = None
    grace: float = 60.0
    stuck: float = 60.0
    spark: dict[str, str] = field(default_factory=dict)
    available_now: bool = True

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Setup:
        return cls(**json.loads(text))
