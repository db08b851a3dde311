"""Calls a service with the client that was generated for Python. Arguments: address, token, store.

Runs in the generator's own environment, beside the package `milepost_api` that it made.
"""

from __future__ import annotations

import io
import sys

from milepost_api import AuthenticatedClient
from milepost_api.api.epochs import campaign
from milepost_api.api.handles import exists, get_all_handles, get_handle, release_and_try_remove
from milepost_api.api.sessions import end_session, open_session
from milepost_api.api.states import add_and_lock, read_state, replace
from milepost_api.models import CampaignBody, Epoch, Handle, HandlePage, OpenSessionBody, Problem, Removal, Session
from milepost_api.types import File


def octets(data: bytes) -> File:
    return File(payload=io.BytesIO(data))


address, token, store = sys.argv[1:]
with AuthenticatedClient(address, token) as client:
    session = open_session.sync(client=client, body=OpenSessionBody(ttl=60.0, holder="python"))
    assert isinstance(session, Session), session
    acting = {"client": client, "milepost_session": session.session}
    granted = campaign.sync(store, body=CampaignBody(wait=0.0), **acting)
    assert isinstance(granted, Epoch), granted
    leading = {**acting, "milepost_epoch": granted.epoch}
    added = add_and_lock.sync(store, "latest", body=octets(b"batch 7"), **leading)
    assert isinstance(added, Handle), added
    assert added.locks == [session.session]
    tag = exists.sync_detailed(store, "latest", client=client).headers["ETag"]
    replaced = replace.sync(store, "latest", body=octets(b"batch 8"), if_match=tag, **leading)
    assert isinstance(replaced, Handle), replaced
    stale = replace.sync(store, "latest", body=octets(b"batch 9"), if_match=tag, **leading)
    assert isinstance(stale, Problem), stale
    assert stale.type_ == "urn:milepost:version-mismatch"
    state = read_state.sync(store, "latest", client=client, redirect=False)
    assert isinstance(state, File), state
    assert state.payload.read() == b"batch 8"
    page = get_all_handles.sync(store, client=client, limit=10)
    assert isinstance(page, HandlePage), page
    assert [handle.version for handle in page.handles] == [replaced.version]
    assert isinstance(get_handle.sync(store, "absent", client=client), Problem)
    removed = release_and_try_remove.sync(store, "latest", **leading)
    assert isinstance(removed, Removal), removed
    assert removed.removed
    assert end_session.sync_detailed(session.session, client=client).status_code == 204
print("every call of the Python client was answered")
