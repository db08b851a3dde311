"""Find the NameNodes of a name service in the Hadoop configuration, which the client does not reveal."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree

from backends.hdfs.address import HdfsAddress

_FILES = ("core-site.xml", "hdfs-site.xml")


def settings_per_namenode(address: HdfsAddress) -> list[dict[str, str]]:
    """Return settings for each NameNode of a name service that make a client ask that one alone, and only once.

    The list is empty where there is only one NameNode, or the configuration does not say how many there are. The
    configuration is read each time, which blocks.
    """
    found = _configuration()
    service = address.name_service if address.authority else urlsplit(found.get("fs.defaultFS", "")).netloc
    if not service or ":" in service or found.get(f"dfs.client.failover.resolve-needed.{service}") == "true":
        return []
    key = f"dfs.ha.namenodes.{service}"
    names = [name for name in found.get(key, "").split(",") if name]
    if len(names) == 1:
        return []
    return [{key: name, "dfs.client.failover.max.attempts": "0"} for name in names]


def _configuration() -> Mapping[str, str]:
    """Return the configuration that the client finds. A file that cannot be read is left out."""
    directory = os.environ.get("HADOOP_CONF_DIR")
    if directory is None and (home := os.environ.get("HADOOP_HOME")) is not None:
        directory = f"{home}/etc/hadoop"
    found: dict[str, str] = {}
    if directory is not None:
        for name in _FILES:
            try:
                properties = ElementTree.parse(Path(directory, name)).getroot().iterfind("property")
            except (OSError, ElementTree.ParseError):
                continue
            found.update((each.findtext("name", ""), each.findtext("value", "")) for each in properties)
    return found
