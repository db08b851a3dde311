"""Readers of what the service answers about loaded state stores."""

from __future__ import annotations

from collections.abc import Callable

from milepost.core.calls import members
from milepost.core.calls.members import Document
from milepost.types import (
    ExecutorLocation,
    InstanceReport,
    LaggingInstances,
    LoadedInstance,
    StateInstance,
    VerifiedInstances,
)


def instance_report(document: Document) -> InstanceReport:
    """Read which instances an executor has to unload."""
    return InstanceReport(members.text(document, "record"), _instances(document, "unload"))


def verified_instances(document: Document) -> VerifiedInstances:
    """Read which instances are an executor's."""
    return VerifiedInstances(members.text(document, "record"), _instances(document, "active"))


def locations(document: Document) -> list[LoadedInstance]:
    """Read where instances are loaded."""
    return [_loaded(entry) for entry in members.entries(document, "locations")]


def loaded_instances(after: str | None) -> Callable[[Document], tuple[list[LoadedInstance], str | None]]:
    """Make a reader for the page of instances after the token ``after``: the instances, and the next page's token."""

    def read(document: Document) -> tuple[list[LoadedInstance], str | None]:
        return [_loaded(entry) for entry in members.entries(document, "instances")], members.next_page(document, after)

    return read


def lagging(document: Document) -> LaggingInstances:
    """Read which instances lag."""
    return LaggingInstances(
        members.whole(document, "count"), tuple(_loaded(entry) for entry in members.entries(document, "lagging"))
    )


def deactivated(document: Document) -> int:
    """Read how many instances were deactivated."""
    return members.whole(document, "deactivated")


def _instances(document: Document, name: str) -> tuple[StateInstance, ...]:
    return tuple(_instance(entry) for entry in members.entries(document, name))


def _instance(document: Document) -> StateInstance:
    run, name = members.text(document, "run"), members.text(document, "name")
    return StateInstance(run, members.whole(document, "operator"), members.whole(document, "partition"), name)


def _loaded(document: Document) -> LoadedInstance:
    return LoadedInstance(
        _instance(document),
        ExecutorLocation(members.text(document, "host"), members.text(document, "executor")),
        None if document.get("snapshot") is None else members.whole(document, "snapshot"),
        members.seconds(document, "age"),
    )
