"""Addresses in Kubernetes, and what is said about wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost_backends.contract import Misconfigured
from milepost_backends.kubernetes.address import KubernetesAddress

pytestmark = pytest.mark.kubernetes


def test_namespace_name_and_options_are_taken_apart() -> None:
    address = KubernetesAddress.parse(
        "kubernetes://team-a/flights/?kubeconfig=/run/a%20b&context=admin&bytes_per_second=200000&lease_duration=3"
        "&renew_deadline=2&retry_period=0.5&pod=milepost-0"
    )
    assert address == KubernetesAddress(
        "team-a", "flights", Path("/run/a b"), "admin", 200_000, 3.0, 2.0, 0.5, pod="milepost-0"
    )


@pytest.mark.parametrize("url", ["kubernetes://", "kubernetes:///", "kubernetes:///milepost"])
def test_what_is_left_out_has_a_default(url: str) -> None:
    assert KubernetesAddress.parse(url) == KubernetesAddress(
        None, "milepost", None, None, 900_000, 15.0, 10.0, 2.0, None
    )
    assert KubernetesAddress.parse("kubernetes://team") == KubernetesAddress("team", "milepost")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("kubernetes:team", "begins with"),
        ("zookeeper://team", "begins with"),
        ("kubernetes://Team", "a namespace must have"),
        ("kubernetes://-team", "a namespace must have"),
        ("kubernetes://" + "n" * 64, "a namespace must have"),
        ("kubernetes://team/a_b", "a deployment's name must have"),
        ("kubernetes://team/a/b", "a deployment's name must have"),
        ("kubernetes://team/" + "n" * 41, "a deployment's name must have"),
        ("kubernetes://team?timeout=4", "timeout is not an option .* use kubeconfig, "),
        ("kubernetes://team?context", "name=value"),
        ("kubernetes://team?context=", "context of .* needs a value"),
        ("kubernetes://team?context=a&context=b", "twice"),
        ("kubernetes://team?lease_duration=soon", "seconds from 3"),
        ("kubernetes://team?lease_duration=2", "seconds from 3"),
        ("kubernetes://team?renew_deadline=1", "seconds from 2"),
        ("kubernetes://team?retry_period=0.1", "seconds from 0.5"),
        ("kubernetes://team?lease_duration=10", "must be longer"),
        ("kubernetes://team?renew_deadline=2", "must be longer"),
        ("kubernetes://team?bytes_per_second=1e6", "a number"),
        ("kubernetes://team?bytes_per_second=10", "at least 50000"),
        ("kubernetes://team?most_bytes=10", "at least 1048576"),
        ("kubernetes://team?pod=a/b", "name of a Pod"),
    ],
)
def test_what_is_wrong_is_named(url: str, message: str) -> None:
    with pytest.raises(Misconfigured, match=message):
        KubernetesAddress.parse(url)


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(Misconfigured, match="kubeconfig") as caught:
        KubernetesAddress.parse("kubernetes://user:hunter2@team/a")
    assert "hunter2" not in str(caught.value)
