"""The bodies of requests about loaded state stores."""

from __future__ import annotations

from typing import Annotated

import msgspec

from milepost.wire import HOST, MAX_INSTANCES, NAME
from milepost_server.http.bodies import Size
from milepost_server.rules.instances import Instance, Location

_Name = Annotated[str, msgspec.Meta(pattern=f"^{NAME.pattern}")]
_Host = Annotated[str, msgspec.Meta(pattern=f"^{HOST.pattern}")]


class InstanceBody(msgspec.Struct, forbid_unknown_fields=True):
    """An instance of a state store, as a request names it."""

    operator: Size
    partition: Size
    run: _Name
    name: _Name = "default"

    def value(self) -> Instance:
        """Return the instance of the rules."""
        return Instance(self.run, self.operator, self.partition, self.name)


_Instances = Annotated[tuple[InstanceBody, ...], msgspec.Meta(max_length=MAX_INSTANCES)]


class PlaceBody(msgspec.Struct, forbid_unknown_fields=True):
    """The members of a body that say which executor speaks."""

    host: _Host
    executor: _Name

    def location(self) -> Location:
        """Return the location of the rules."""
        return Location(self.host, self.executor)


class ReportBody(PlaceBody, forbid_unknown_fields=True):
    """The JSON body of a report."""

    loaded: _Instances
    others: _Instances = ()


class VerificationBody(PlaceBody, forbid_unknown_fields=True):
    """The JSON body of a verification."""

    instances: _Instances
    record: Annotated[str, msgspec.Meta(max_length=200)] = ""


class InstancesBody(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body that names instances."""

    instances: _Instances


class SnapshotBody(InstanceBody, forbid_unknown_fields=True, kw_only=True):
    """A snapshot that was made of an instance."""

    version: Size


class SnapshotsBody(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body that tells of snapshots."""

    snapshots: Annotated[tuple[SnapshotBody, ...], msgspec.Meta(max_length=MAX_INSTANCES)]


class DeactivationBody(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body that says which instances nobody has any more; without a member, it is all of them."""

    instances: _Instances | None = None
    run: _Name | None = None
    executor: _Name | None = None


def values(bodies: tuple[InstanceBody, ...]) -> list[Instance]:
    """Return the instances of the rules."""
    return [body.value() for body in bodies]
