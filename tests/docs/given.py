"""What the pages take for granted before their lines are pasted, put in place for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx

import milepost
from tests.support.servers.certificates import Certificates
from tests.wire.webhdfs.hadoop import Tree

Given = Callable[[str, Path], dict[str, str]]
"""Puts it in place at a service's URL, or in a directory for this page; returns what stands on the page for what has
another value each time.
"""


def a_job_with_snapshots(url: str, _: Path) -> dict[str, str]:
    """Put a job ``flights`` in place over REST as Spark would: it has committed batches 5 to 7, and has no driver."""
    with milepost.Client(url) as client, client.session("given") as session, httpx.Client(timeout=60.0) as http:
        http.base_url = client.status().leader or url  # as Spark is told the leader's address
        store = session.store("flights")
        store.campaign()
        tree = Tree(http, "flights", store.epoch)
        assert tree.create("checkpoint/sources/0/0", b"v1").status_code == 201
        for batch in (5, 6, 7):
            assert tree.create(f"checkpoint/offsets/{batch}", f"offsets of batch {batch}".encode()).status_code == 201
            assert (
                tree.create("checkpoint/state/0/1.delta", f"state {batch}".encode(), overwrite=True).status_code == 201
            )
            assert tree.create(f"checkpoint/commits/{batch}", b"v1").status_code == 201
        store.resign()
        return {"4711": str(store.files.snapshots().snapshots[0].revision)}


def the_files_of_a_driver(_: str, directory: Path) -> dict[str, str]:
    """Make what a driver has below /etc/milepost: its token, its certificate, and the authority of the servers'."""
    place = directory / "etc"
    place.mkdir()
    certificates = Certificates(place)
    certificates.certificate.rename(place / "driver.crt")
    certificates.key.rename(place / "driver.key")
    (place / "token").write_text("a-token\n")
    return {"/etc/milepost/": f"{place}/"}


GIVEN: dict[str, Given] = {"a job with snapshots": a_job_with_snapshots, "the files of a driver": the_files_of_a_driver}
