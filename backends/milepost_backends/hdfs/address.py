"""Parse addresses of blobs: ``hdfs://namenode:port/path`` or ``hdfs://name-service/path``, with ``?replication=N``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from milepost_backends.contract import Misconfigured, UnsafeKey, check_key, parse_options

_AUTHORITY = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9._-]*)(?::[0-9]{1,5})?\Z")
_MAX_REPLICATION = 512


@dataclass(frozen=True, slots=True)
class HdfsAddress:
    """The location of the blobs in HDFS: a file system (``authority``) and a path in it.

    An empty ``authority`` means the file system that Hadoop's setting ``fs.defaultFS`` names. If ``replication`` is
    None, the NameNode's default applies.
    """

    authority: str
    root: str
    replication: int | None = None

    @property
    def file_system(self) -> str:
        """Return the URL of the file system that a client connects to."""
        return f"hdfs://{self.authority}"

    @property
    def name_service(self) -> str | None:
        """Return the name that stands for several NameNodes in the Hadoop configuration; None if the address has a
        port.
        """
        return None if ":" in self.authority or not self.authority else self.authority


def parse_address(url: str) -> HdfsAddress:
    """Return the address in an ``hdfs://`` URL. Raises `Misconfigured`, which never quotes possible secrets."""
    parts = urlsplit(url)
    if parts.scheme != "hdfs":
        raise Misconfigured("the URL of HDFS blobs must begin with hdfs://")
    if "@" in parts.netloc:
        raise Misconfigured("an hdfs:// URL has no user: it comes from HADOOP_USER_NAME, a Kerberos ticket or a token")
    if parts.netloc and not _AUTHORITY.match(parts.netloc):
        raise Misconfigured(f"{parts.netloc!r} is not the address of a NameNode: use hdfs://namenode:port/path")
    if parts.fragment:
        raise Misconfigured("an hdfs:// URL ends with its options: remove the part after #")
    return HdfsAddress(parts.netloc, _root(parts.path), _replication(parts.query))


def _root(path: str) -> str:
    root = path.strip("/")
    if not root:
        raise Misconfigured("an hdfs:// URL must name a directory of Milepost's own: hdfs://namenode:port/path")
    try:
        check_key(root)
    except UnsafeKey as error:
        raise Misconfigured(f"the path in an hdfs:// URL must be one that keys may have: {error}") from error
    return f"/{root}"


def _replication(query: str) -> int | None:
    value = parse_options(query, ("replication",), "hdfs:// URLs").get("replication")
    if value is None:
        return None
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= _MAX_REPLICATION:
        raise Misconfigured(f"replication in an hdfs:// URL must be one number from 1 to {_MAX_REPLICATION}")
    return int(value)
