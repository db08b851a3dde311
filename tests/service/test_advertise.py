"""What a Pod advertises: its address, or a name that the cluster's DNS makes of it."""

from __future__ import annotations

import pytest

from milepost_server.advertise import advertised


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://10.1.2.3:7070", "http://10.1.2.3:7070"),
        ("https://{10.1.2.3}.milepost-replicas.data.svc:7070", "https://10-1-2-3.milepost-replicas.data.svc:7070"),
        ("https://{fd00::1:17}.milepost-replicas.data.svc", "https://fd00--1-17.milepost-replicas.data.svc"),
        ("", ""),
    ],
)
def test_an_address_in_braces_is_written_with_dashes(given: str, url: str) -> None:
    assert advertised(given) == url


@pytest.mark.parametrize("given", ["https://{}.svc", "https://{POD_IP}.svc", "https://{10.1.2}.svc"])
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="--advertise takes an IP address in braces"):
        advertised(given)
