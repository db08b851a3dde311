"""What the Hadoop configuration says about the NameNodes of a name service: the client does not tell."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree

from backends.hdfs.address import HdfsAddress

_FILES = ("core-site.xml", "hdfs-site.xml")


def each_alone(address: HdfsAddress) -> list[dict[str, str]]:
    """For each NameNode of a name service what makes a client ask that one only, and not again if it does not serve.

    Nothing where there is just one, or the configuration does not say how many. It is read each time; that blocks.
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
    """Where the client finds it. What it cannot read it complains about itself."""
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
