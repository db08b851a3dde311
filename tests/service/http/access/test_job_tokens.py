"""What is remembered of a job's token ends with the list of clients by which the token was verified."""

from __future__ import annotations

import gc
import weakref
from hashlib import sha256
from typing import cast

import pytest

from milepost_server.blobs.shared_key import SharedKey
from milepost_server.http.access.job_tokens import LIFE_SECONDS, JobTokens
from milepost_server.http.access.rights import Patterns, Rights
from milepost_server.http.access.tokens import Principal, Tokens, digest_of

pytestmark = pytest.mark.anyio

DRIVER = Principal("driver", Rights(writer=Patterns(("*",))), sha256(b"token of the driver").digest(), secret=False)
NO_KEY = cast("SharedKey", None)
"""No key is needed for a client whose token is in the file."""


class Clients:
    """A list of clients, and a wall clock, that a test changes."""

    def __init__(self) -> None:
        self.now = Tokens([DRIVER])
        self.wall = 0.0


async def token_of(jobs: JobTokens, job: str) -> str:
    credential = await jobs.credential(DRIVER, job, 1)
    token = await jobs.token_for(credential.client_id, credential.client_secret)
    assert token is not None
    return token


async def test_a_verified_token_is_remembered_until_it_expires_or_the_clients_change() -> None:
    clients = Clients()
    jobs = JobTokens(clients, NO_KEY, lambda: clients.wall)
    token = await token_of(jobs, "flights")
    assert jobs.remembered(digest_of(token)) is None
    job = await jobs.known(token)
    assert job is not None
    assert jobs.remembered(digest_of(token)) == job
    clients.wall = LIFE_SECONDS
    assert jobs.remembered(digest_of(token)) is None
    clients.wall, before = 0.0, weakref.ref(clients.now)
    clients.now = Tokens([DRIVER])
    assert jobs.remembered(digest_of(token)) is None
    assert await jobs.known(await token_of(jobs, "trains")) is not None
    gc.collect()
    assert before() is None, "old lists of clients are kept"
