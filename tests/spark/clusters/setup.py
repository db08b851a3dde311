"""The settings that a driver of these tests gets on its command line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

TOTALS, DISTINCT, COPY = "totals", "distinct", "copy"

REDUCERS = 4
"""How many tasks the stage with the state has on the cluster; the first stage has one for each partition."""


@dataclass(frozen=True)
class Setup:
    """A driver whose checkpoint is in the tree of ``store``, and that reads ``topic`` of the brokers at ``kafka``.

    ``query`` is `TOTALS`, sums by key, or `DISTINCT`, rows without those that came before, of which each batch tells as
    an event; or `COPY`, which copies all rows to the topic ``target``. A batch takes up to ``per_batch`` rows, of each
    of which its tasks take ``slow`` milliseconds. In batch ``pause`` the driver stands still, with the batch evaluated
    and not committed, until the file ``go`` is there. ``seen`` is a file of which every task looks whether it can see
    it. ``spark`` are settings of Spark's.
    """

    url: str
    store: str
    kafka: str
    topic: str
    events: str
    java_options: str
    jars: str
    query: str = TOTALS
    target: str = ""
    master: str = "local[2]"
    provider: str = "hdfs"
    per_batch: int = 40
    slow: int = 0
    pause: int = -1
    go: str = ""
    on: str = ""
    seen: str = ""
    ttl: float = 6.0
    available_now: bool = False
    spark: dict[str, str] = field(default_factory=dict)

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Setup:
        return cls(**json.loads(text))
