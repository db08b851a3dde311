"""All that a release ever wrote to its journal, as its ConfigMaps were watched: each version of each of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from milepost_backends.kubernetes.address import labels_of, selector
from milepost_backends.kubernetes.configmaps.entries import is_tombstone, key_of, value_of
from milepost_server.model.records import decode
from testbed.cluster.cluster import KubernetesCluster
from testbed.cluster.release import Release
from tests.spark.clusters.written import Journal


class WatchedJournal(Journal):
    """The journal of an installed ``release``, from the block's beginning to its end.

    The API server tells a watcher of every version of an object, in order; one that fell behind is cut off.
    """

    def __init__(self, node: KubernetesCluster, release: Release, log: Path) -> None:
        label = f"--selector={selector(labels_of(release.name))}"
        watching = ("--watch", "--output=json", label, f"--namespace={release.namespace}")
        self._watch = node.following(log, "get", "configmaps", *watching)

    def __enter__(self) -> Self:
        self._watch.start(ready=lambda: '"milepost/head"' in self._watch.logged())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watch.kill()

    def records(self) -> Iterator[tuple[str, object]]:
        """See `Journal.records`. Raises `AssertionError` if the watch has ended, since it missed something then."""
        assert self._watch.running, self._watch.logged()[-2000:]
        return written(self._watch.logged())


def written(watched: str) -> Iterator[tuple[str, object]]:
    """Every version of every record in the ConfigMaps that kubectl printed, each once."""
    seen: dict[str, str] = {}
    for configmap in _documents(watched):
        for name, text in configmap.get("data", {}).items():
            key = key_of(name, text)
            if key is not None and not is_tombstone(text) and seen.get(key) != text:
                seen[key] = text
                yield key, decode(key, value_of(text))


def _documents(text: str) -> Iterator[dict[str, Any]]:
    """JSON documents, one after the other; the last may not be whole yet."""
    decoder, at = json.JSONDecoder(), 0
    while (at := text.find("{", at)) >= 0:
        try:
            document, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            return
        yield document
