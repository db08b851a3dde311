"""Labels behind proxies that drop headers by their names: all of them come, or the SDK says that they were lost.

The gateway drops what nginx drops, since machines that run the tests have no nginx; so it does for an older service.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest

import milepost
from milepost.checkpoints import CheckpointRegistry
from tests.client.flavours import connected
from tests.support.network.gateway import Gateway

LABELS = {"batch": "7", "a.b": 'x = "y", \\ z', "c_d": "", "e-f": "{}"}
SAFE = {key: value for key, value in LABELS.items() if key in ("batch", "e-f")}


def as_nginx(name: str) -> object:
    """What nginx hands on with ``underscores_in_headers off`` and ``ignore_invalid_headers on``, as it is set up."""
    return re.fullmatch(r"[a-z0-9-]+", name)


def as_an_older_service(name: str) -> object:
    """What a service heeds that does not know the header with all labels."""
    return name != "milepost-labels"


def as_an_older_service_behind_nginx(name: str) -> object:
    return as_nginx(name) and as_an_older_service(name)


def known_names_alone(name: str) -> object:
    """What a gateway hands on that has a list of names."""
    return not name.startswith("milepost-label")


def test_labels_come_through_a_proxy_that_drops_names_with_other_characters(
    flavour: str, proxy: Gateway, blocking: milepost.Client, name: str
) -> None:
    proxy.passes = as_nginx
    with connected(flavour, proxy.url, timeout=20.0) as client, client.session() as session:
        store = session.store(name)
        added = store.add_and_lock("h", b"state", labels=LABELS)
        assert added.labels == store.get_and_lock("h").labels == blocking.store(name).get("h").labels == LABELS
        kept = store.replace("h", added.version, b"newer")
        assert kept.labels == LABELS
        assert store.replace("h", kept.version, b"newest", labels={"g.h": "8"}).labels == {"g.h": "8"}


@pytest.mark.parametrize(
    ("passes", "stored"), [(known_names_alone, {}), (as_an_older_service_behind_nginx, SAFE)], ids=["none", "some"]
)
def test_a_write_whose_labels_were_lost_is_done_and_says_so(
    flavour: str, proxy: Gateway, blocking: milepost.Client, name: str, passes: Callable[[str], Any], stored: Any
) -> None:
    proxy.passes = passes
    with connected(flavour, proxy.url, timeout=20.0) as client, client.session() as session:
        store = session.store(name)
        with pytest.raises(milepost.LabelsLost, match=r"^h is stored, .*a\.b, .*Milepost-Labels") as adding:
            store.add_and_lock("h", b"state", labels=LABELS)
        handle = adding.value.handle
        assert handle == blocking.store(name).get("h")
        assert (handle.labels, handle.locks, store.read("h")) == (stored, (session.id,), b"state")
        with pytest.raises(milepost.LabelsLost) as replacing:
            store.replace("h", handle.version, b"newer", labels=LABELS)
        handle = replacing.value.handle
        assert (handle.labels, store.read("h", handle.version)) == (stored, b"newer")
        assert replacing.value.request_id
        again = pickle.loads(pickle.dumps(replacing.value))
        assert (str(again), again.handle, again.request_id) == (
            str(replacing.value),
            handle,
            replacing.value.request_id,
        )
        proxy.passes = as_nginx
        assert store.replace("h", handle.version, b"newer", labels=LABELS).labels == LABELS


def test_an_older_service_still_takes_labels_whose_keys_pass_everywhere(
    flavour: str, proxy: Gateway, name: str
) -> None:
    proxy.passes = as_an_older_service
    with connected(flavour, proxy.url, timeout=20.0) as client, client.session() as session:
        assert session.store(name).add_and_lock("h", b"state", labels=SAFE).labels == SAFE


def test_a_checkpoint_whose_labels_were_lost_is_retained_and_removed_like_any_other(
    proxy: Gateway, blocking: milepost.Client, name: str
) -> None:
    proxy.passes = known_names_alone
    with connected("blocking", proxy.url, timeout=20.0) as client, client.session() as session:
        registry = CheckpointRegistry(session.store(name))
        for number in (1, 2):
            with pytest.raises(milepost.LabelsLost):
                registry.add(number, b"state", labels=LABELS)
        assert [checkpoint.number for checkpoint in registry.checkpoints] == [1, 2]
        registry.add(3, b"state")
        assert len(list(blocking.store(name).get_all_handles())) == 1
        registry.shutdown(job_ended=True)
        assert list(blocking.store(name).get_all_handles()) == []
