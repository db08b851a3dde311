"""Prepares the JVM of a driver that stands by for the take-over, by reading as the query will read."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from milepost.core.checkpoint_location import checkpoint_location
from milepost.errors import MilepostError
from milepost.spark.recovery import newest
from milepost.spark.tree import CheckpointTree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

_NO_EPOCH = 0
_MOST_BYTES = 64 * 1024 * 1024
_LEAST_BYTES = 1024 * 1024
_FILES = 1000
_OUTAGE_SECONDS = 1.0
_IMPATIENT = {
    "dfs.webhdfs.socket.connect-timeout": "2s",
    "dfs.webhdfs.socket.read-timeout": "5s",
    "dfs.http.client.failover.max.attempts": "3",
    "dfs.http.client.retry.max.attempts": "1",
}


def warm_up(spark: SparkSession, urls: Sequence[str], store: str) -> None:
    """Let a thread read a little of the checkpoint of the job ``store``, and some of its state if that is large.

    A JVM that never did so takes more than a second longer for 300 MB of state, most of it for compiling, and it saves
    that after the grant. Nothing depends on it, nothing waits for it, and it needs no epoch: what goes wrong is logged,
    and met again under the epoch. Where the service has tokens, a driver without the epoch is refused; then the JVM has
    loaded its classes at least.
    """
    threading.Thread(target=_read, args=(spark, urls, store), name="milepost-warm-up", daemon=True).start()


def _read(spark: SparkSession, urls: Sequence[str], store: str) -> None:
    location = checkpoint_location(urls, store, _NO_EPOCH)
    location = replace(location, settings={**location.settings, **_IMPATIENT})
    try:
        tree = CheckpointTree(spark, location, _OUTAGE_SECONDS)
        tree.read(f"offsets/{newest(tree, 'offsets')}")
        read = tree.skim("state", _LEAST_BYTES, _MOST_BYTES, _FILES)
    except (MilepostError, Py4JError, OSError) as error:
        _log.debug("the checkpoint of %s cannot be read while standing by: its take-over is a little slower", error)
    else:
        _log.debug("read %d bytes of the state of %s while standing by", read, store)
