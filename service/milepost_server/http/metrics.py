"""The metrics of a replica in the text format of Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import accumulate
from time import process_time
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, Histogram, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from milepost_backends.contract import PointerStore
from milepost_server.blobs.timeouts import BlobsWithTimeout
from milepost_server.http.job_metrics import JobMetrics
from milepost_server.journal import Journal

_BUCKETS: Final = Histogram.DEFAULT_BUCKETS
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})


class _Requests(Collector):
    """Counts answers in plain numbers, which takes a fifth of the time of a `Counter` and a `Histogram`, whose numbers
    any thread may change.
    """

    def __init__(self) -> None:
        self.counts: defaultdict[tuple[str, int], int] = defaultdict(int)
        self._seconds: dict[str, list[float]] = {}
        """By method, the sum of the seconds, and behind it the number of answers in each bucket."""

    def note(self, method: str, status: int, seconds: float) -> None:
        self.counts[method, status] += 1
        of_method = self._seconds.get(method)
        if of_method is None:
            of_method = self._seconds[method] = [0.0] * (len(_BUCKETS) + 1)
        of_method[0] += seconds
        of_method[bisect_left(_BUCKETS, seconds) + 1] += 1

    def collect(self) -> Iterator[Metric]:
        """Yield the two families of metrics."""
        requests = CounterMetricFamily(
            "milepost_requests", "Requests by method and status", labels=("method", "status")
        )
        for (method, status), count in list(self.counts.items()):
            requests.add_metric((method, str(status)), count)
        yield requests
        seconds = HistogramMetricFamily(
            "milepost_request_seconds", "Seconds from a request to its answer", labels=("method",)
        )
        for method, (total, *numbers) in list(self._seconds.items()):
            buckets = zip(map(floatToGoString, _BUCKETS), accumulate(numbers), strict=True)
            seconds.add_metric((method,), list(buckets), total)
        yield seconds


class Metrics:
    """Counters of requests, and gauges that read the journal and the storage when the metrics are fetched."""

    def __init__(
        self,
        journal: Journal,
        pointers: PointerStore,
        blobs: BlobsWithTimeout,
        jobs: JobMetrics,
        expires: Callable[[], float | None] = lambda: None,
        cell: str = "",
    ) -> None:
        """``expires`` returns the Unix time at which the replica's TLS certificate ends; None without a certificate.
        ``cell`` is the name of the cell that the deployment is; empty if it is none.
        """
        self._jobs = jobs
        self._registry = CollectorRegistry()
        self._requests = _Requests()
        self._registry.register(self._requests)
        self._gauge(
            "milepost_leading", "1 while this replica leads and its lease holds", lambda: float(journal.lease_holds())
        )
        self._gauge("milepost_term", "Term of the journal as this replica knows it", lambda: float(journal.term))
        self._gauge("milepost_revision", "Last committed revision", lambda: float(journal.head.revision))
        self._gauge("milepost_records", "Records in memory", lambda: float(journal.records))
        self._gauge("milepost_groups_committed", "Groups committed", lambda: float(journal.groups_committed))
        damaged = "Records whose content or checksum is wrong, and which are therefore not served"
        self._gauge("milepost_damaged_records", damaged, lambda: float(len(journal.damaged)))
        unproven = "1 if stored records failed verification when this replica was elected last, so it does not lead"
        self._gauge("milepost_journal_damaged", unproven, lambda: float(journal.unproven is not None))
        sent = "Bytes sent to the pointer store in writes, including data that is rewritten along with a change"
        self._gauge("milepost_pointer_bytes_sent", sent, lambda: float(pointers.bytes_sent))
        self._gauge(
            "milepost_storage_full",
            "1 while new states are refused because the storage is full; removals and locks still work",
            lambda: float((pointers.full or blobs.full) is not None),
        )
        abandoned = "Terms given up early because the outcome of a write was unknown"
        self._gauge("milepost_terms_abandoned", abandoned, lambda: float(journal.terms_abandoned))
        self._gauge("milepost_processor_seconds", "Seconds of processor time that this process has used", process_time)
        if expires() is not None:
            ends = "Unix time at which the certificate in use ends"
            self._gauge("milepost_tls_certificate_expiry_seconds", ends, lambda: expires() or 0.0)
        if cell:
            info = "1, with the name of the cell that this deployment is as the label cell"
            Gauge("milepost_cell_info", info, ("cell",), registry=self._registry).labels(cell).set(1)

    def _gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        gauge = Gauge(name, text, registry=self._registry)
        gauge.set_function(value)

    def note(self, method: str, status: int, seconds: float) -> None:
        """Count an answer that took ``seconds``."""
        self._requests.note(method if method in _METHODS else "other", status, seconds)

    def refused(self, status: int) -> None:
        """Count an answer with ``status`` to input that is not a valid request."""
        self._requests.counts["other", status] += 1

    async def text(self, *, named: bool) -> bytes:
        """Return all metrics in the text format of Prometheus; those that name single jobs only if ``named``."""
        return generate_latest(self._registry) + await self._jobs.text(named=named)
