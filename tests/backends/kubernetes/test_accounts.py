"""Whose a ServiceAccount's token is, as a real API server says it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from milepost_backends.contract import Account, Misconfigured, StorageUnavailable
from milepost_backends.kubernetes.accounts import ServiceAccounts
from milepost_backends.kubernetes.address import KubernetesAddress
from testbed.kubernetes.admin import Admin
from testbed.process import DEADLINE_SECONDS
from tests.backends.kubernetes.test_client import kubeconfig
from tests.support.network.scripted_server import ScriptedServer, reply, stall
from tests.support.servers import kubernetes

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]

AUDIENCE = "milepost-of-this-test"


@pytest.fixture
async def accounts(site: kubernetes.Site) -> AsyncIterator[ServiceAccounts]:
    """Asked with the rights that the chart's account has: those of a deployment, and to ask whose tokens are."""
    site.may_review_tokens()
    asking = ServiceAccounts(site.address(), AUDIENCE, timeout=20.0)
    await asking.open()
    yield asking
    await asking.close()


async def test_a_token_for_us_is_its_accounts(site: kubernetes.Site, accounts: ServiceAccounts) -> None:
    site.api.admin.account(site.namespace, "driver")
    token = site.api.admin.token(site.namespace, "driver", AUDIENCE)
    assert await accounts.owner(token) == Account(site.namespace, "driver")


async def test_a_token_for_others_or_of_nobody_is_not(site: kubernetes.Site, accounts: ServiceAccounts) -> None:
    admin: Admin = site.api.admin
    admin.account(site.namespace, "driver")
    good = admin.token(site.namespace, "driver", AUDIENCE)
    head, claims, proof = good.split(".")
    for token in (
        admin.token(site.namespace, "driver"),  # for the API server itself
        admin.token(site.namespace, "driver", "another"),
        f"{head}.{claims}.{'A' * len(proof)}",
        "a.b.c",
        "x" * 10_000,
    ):
        assert await accounts.owner(token) is None


async def test_the_token_of_an_account_that_is_gone_is_nobodys(
    site: kubernetes.Site, accounts: ServiceAccounts
) -> None:
    path = site.api.admin.account(site.namespace, "driver")
    token = site.api.admin.token(site.namespace, "driver", AUDIENCE)
    assert await accounts.owner(token) is not None
    site.api.admin.ask("DELETE", path)
    end = time.monotonic() + DEADLINE_SECONDS
    while await accounts.owner(token) is not None:  # the API server remembers accounts for a moment
        assert time.monotonic() < end


async def test_who_may_not_ask_is_told_so(site: kubernetes.Site) -> None:
    asking = ServiceAccounts(site.address(), AUDIENCE, timeout=20.0)
    await asking.open()
    try:
        site.api.admin.account(site.namespace, "driver")
        with pytest.raises(Misconfigured, match="system:auth-delegator"):
            await asking.owner(site.api.admin.token(site.namespace, "driver", AUDIENCE))
    finally:
        await asking.close()


async def test_what_is_no_answer_is_no_refusal_and_repeats_no_token(tmp_path: Path) -> None:
    """The other side is scripted, because a real API server does not fall silent or talk nonsense when told to."""
    token = "the.secret.token"
    script = [
        stall(),
        reply(201, b'{"status": "the.secret.token"}', Milepost_Term=""),
        reply(503, b"busy", Milepost_Term=""),
    ]
    with ScriptedServer(iter(script)) as server:
        address = KubernetesAddress(kubeconfig=kubeconfig(tmp_path, server.port))
        asking = ServiceAccounts(address, AUDIENCE, timeout=1.0)
        await asking.open()
        try:
            for _ in script:
                with pytest.raises(StorageUnavailable) as raised:
                    await asking.owner(token)
                error: BaseException | None = raised.value
                while error is not None:
                    assert "secret" not in str(error)
                    error = error.__cause__
        finally:
            await asking.close()
