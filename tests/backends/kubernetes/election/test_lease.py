"""What is read from the Lease and written into it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

from milepost_backends.contract import StorageUnavailable
from milepost_backends.kubernetes.election.lease import ADVERTISE, RELEASED, Claim, Lease, claimed, released

pytestmark = pytest.mark.kubernetes

NOW = datetime(2026, 3, 1, 12, 30, 1, 5, timezone(timedelta(hours=2)))
OURS = Claim("milepost", "here", "http://one:7070#1234", "http://one:7070", 2.5)
THEIRS = Claim("milepost", "here", "http://other:7070#5678", "http://other:7070", 15)
LABELS = {"milepost/deployment": "milepost"}


def content(body: bytes) -> Any:
    return msgspec.json.decode(body)


def stored(body: bytes, version: str = "7") -> Lease:
    """The Lease as it is read again after it was written."""
    document = content(body)
    document["metadata"] |= {"uid": "u-1", "resourceVersion": version}
    return Lease.read(msgspec.json.encode(document))


def edited(lease: Lease, metadata: dict[str, Any] | None = None, spec: dict[str, Any] | None = None) -> Lease:
    return Lease({**lease.metadata, **(metadata or {})}, {**lease.spec, **(spec or {})})


def test_a_new_lease_says_who_holds_it_and_for_how_long() -> None:
    written = content(claimed(None, OURS, NOW))
    assert written["metadata"]["name"] == "milepost"
    assert written["metadata"]["labels"] == LABELS
    assert written["metadata"]["annotations"] == {ADVERTISE: "http://one:7070"}
    assert written["spec"] == {
        "holderIdentity": "http://one:7070#1234",
        "leaseDurationSeconds": 3,  # whole seconds, and never too few
        "leaseTransitions": 0,
        "acquireTime": "2026-03-01T10:30:01.000005Z",
        "renewTime": "2026-03-01T10:30:01.000005Z",
    }


def test_what_was_written_is_read_again() -> None:
    lease = stored(claimed(None, OURS, NOW))
    assert lease.holder == OURS.identity
    assert lease.seconds == 3.0
    assert lease.advertised == "http://one:7070"
    assert lease.version == ("u-1", "7")
    assert lease.belongs_to("milepost")
    assert not lease.belongs_to("other")


def test_a_renewal_keeps_when_it_was_acquired_and_counts_no_transition() -> None:
    lease = stored(claimed(stored(claimed(None, THEIRS, NOW)), OURS, NOW))
    renewed = stored(claimed(lease, OURS, NOW + timedelta(seconds=2)))
    assert lease.spec["leaseTransitions"] == renewed.spec["leaseTransitions"] == 1
    assert renewed.spec["acquireTime"] == lease.spec["acquireTime"]
    assert renewed.spec["renewTime"] == "2026-03-01T10:30:03.000005Z"


def test_a_lease_that_lost_its_label_is_ours_by_what_nobody_else_writes_and_gets_it_back() -> None:
    held = stored(claimed(None, THEIRS, NOW))
    for lease in (held, stored(released(held, NOW))):
        bare = edited(lease, {"labels": None})
        assert bare.belongs_to("milepost")
        assert not bare.belongs_to("other")
        assert not edited(bare, {"annotations": {"note": "b"}}).belongs_to("milepost")
        assert not edited(bare, {"labels": {"milepost/deployment": "other"}}).belongs_to("milepost")
        assert content(claimed(bare, OURS, NOW))["metadata"]["labels"] == LABELS


@pytest.mark.parametrize("found", [2**31 - 1, -1, "many", None, 1.5])
def test_a_count_that_somebody_raised_as_far_as_it_goes_begins_anew(found: object) -> None:
    """One more than the API takes, and it would refuse every candidate for good."""
    lease = edited(stored(claimed(None, THEIRS, NOW)), spec={"leaseTransitions": found})
    assert 0 <= content(claimed(lease, OURS, NOW))["spec"]["leaseTransitions"] < 2**31


def test_an_update_is_conditional_on_what_was_read() -> None:
    written = content(claimed(stored(claimed(None, THEIRS, NOW)), OURS, NOW))
    assert (written["metadata"]["uid"], written["metadata"]["resourceVersion"]) == ("u-1", "7")


@pytest.mark.parametrize("metadata", [{"resourceVersion": ""}, {"resourceVersion": "0"}, {"uid": ""}, {"uid": None}])
def test_no_update_is_sent_that_would_overwrite_whatever_stands_there(metadata: dict[str, Any]) -> None:
    lease = edited(stored(claimed(None, OURS, NOW)), metadata)
    with pytest.raises(StorageUnavailable, match="version"):
        claimed(lease, OURS, NOW)
    with pytest.raises(StorageUnavailable, match="version"):
        released(lease, NOW)


def test_what_others_put_there_stays_and_what_they_took_away_comes_back() -> None:
    lease = stored(claimed(None, OURS, NOW))
    metadata = {
        "labels": {"team": "data"},
        "annotations": {"note": "kept"},
        "ownerReferences": [{"uid": "o-1"}],
        "finalizers": ["example.org/wait"],
        "managedFields": [{"manager": "x"}],
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    written = content(claimed(edited(lease, metadata, {"strategy": "OldestEmulationVersion"}), OURS, NOW))
    assert written["metadata"]["labels"] == {"team": "data", **LABELS}
    assert written["metadata"]["annotations"] == {"note": "kept", ADVERTISE: "http://one:7070"}
    assert written["metadata"]["ownerReferences"] == [{"uid": "o-1"}]
    assert written["metadata"]["finalizers"] == ["example.org/wait"]
    assert written["metadata"]["managedFields"] == [{}]
    assert "creationTimestamp" not in written["metadata"]
    assert written["spec"]["strategy"] == "OldestEmulationVersion"


def test_a_released_lease_has_no_holder_and_keeps_its_count() -> None:
    lease = stored(claimed(stored(claimed(None, THEIRS, NOW)), OURS, NOW))
    after = stored(released(lease, NOW))
    assert (lease.released_by, after.released_by) == ("", OURS.identity)
    assert (after.holder, after.seconds, after.advertised) == ("", 1.0, None)
    assert after.spec["leaseTransitions"] == 1
    assert after.belongs_to("milepost")
    again = stored(claimed(after, OURS, NOW))
    assert again.spec["leaseTransitions"] == 2
    assert again.metadata["annotations"] == {ADVERTISE: OURS.advertise}


def test_nobody_released_a_lease_that_lost_its_holder_by_another_hand() -> None:
    lease = stored(claimed(None, OURS, NOW))
    assert edited(lease, spec={"holderIdentity": ""}).released_by == ""
    assert edited(lease, {"annotations": {RELEASED: OURS.identity}}).released_by == ""  # while it is held


@pytest.mark.parametrize("spec", [None, {}, {"holderIdentity": None}, {"leaseTransitions": 4}])
def test_a_lease_that_says_little_is_held_by_nobody(spec: dict[str, Any] | None) -> None:
    lease = Lease.read(msgspec.json.encode({"metadata": {"name": "milepost", "labels": None}, "spec": spec}))
    assert (lease.holder, lease.seconds, lease.advertised, lease.version) == ("", 0.0, None, ("", ""))
    assert not lease.belongs_to("milepost")


def test_a_url_that_is_not_the_holders_is_nobodys() -> None:
    lease = stored(claimed(None, OURS, NOW))
    assert edited(lease, {"annotations": {ADVERTISE: "http://one:707"}}).advertised is None
    assert edited(lease, spec={"holderIdentity": "somebody"}).advertised is None


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"metadata": 7}'])
def test_what_is_no_lease_is_an_outage(body: bytes) -> None:
    with pytest.raises(StorageUnavailable, match="not a Lease"):
        Lease.read(body)
