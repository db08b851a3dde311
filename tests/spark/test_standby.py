"""Standing by through outages, which are made up: the real service cannot be away for one call."""

from __future__ import annotations

import pytest

import milepost
from milepost.errors import ConnectionFailed, MilepostError, OutcomeUnknown, Unavailable
from milepost.spark import standby
from milepost.store import StateHandleStore
from milepost.types import Epoch
from milepost.wire import Code


def away(monkeypatch: pytest.MonkeyPatch, outage: MilepostError) -> None:
    """Let the first campaign, which asks who leads, meet ``outage``."""
    campaign = StateHandleStore.campaign

    def first(_store: StateHandleStore, _wait: float | None = 30.0) -> Epoch:
        monkeypatch.setattr(StateHandleStore, "campaign", campaign)
        raise outage

    monkeypatch.setattr(StateHandleStore, "campaign", first)


@pytest.mark.parametrize(
    "outage", [Unavailable(Code.NO_LEADER), ConnectionFailed("away"), OutcomeUnknown(Code.OUTCOME_UNKNOWN)]
)
@pytest.mark.parametrize("wait", [None, 60.0])
def test_an_outage_is_waited_out(
    client: milepost.Client, name: str, monkeypatch: pytest.MonkeyPatch, outage: MilepostError, wait: float | None
) -> None:
    away(monkeypatch, outage)
    session, handles = standby.campaign(client, "standby", name, 15.0, wait, lambda *_: None)
    assert handles.epoch == 1
    session.close()


def test_an_outage_that_outlasts_the_wait_is_told(
    client: milepost.Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    away(monkeypatch, Unavailable(Code.NO_LEADER))
    with pytest.raises(Unavailable):
        standby.campaign(client, "standby", name, 15.0, 0.0, lambda *_: None)
