"""A look at the files of a job before a driver starts."""

from __future__ import annotations

import pytest

import milepost
from milepost.integrity import IfDamaged, go_back, look


def test_a_look_that_takes_too_long_keeps_nobody_from_going_on(
    blocking: milepost.Client, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = blocking.session("a driver").store(name)
    store.campaign()
    found = look(store, digests=True)
    assert found is not None
    assert found.intact
    monkeypatch.setattr("milepost.integrity.VERIFY_SECONDS", 0.0)
    assert look(store, digests=True) is None
    assert "could not be looked at within 0 s" in caplog.text
    go_back(store, None, IfDamaged.REFUSE)
