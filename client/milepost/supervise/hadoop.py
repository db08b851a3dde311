"""Reads what Spark reads of Hadoop's own configuration, as far as settings of ours would hide it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

_LISTED = "dfs.nameservices"


def name_services(environment: Mapping[str, str]) -> list[str]:
    """Return the HDFS name services that ``hdfs-site.xml`` lists, in the directory where Spark looks first.

    Raises ValueError for a file that is no XML.
    """
    for variable in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        path = Path(environment.get(variable) or "/nowhere", "hdfs-site.xml")
        if not path.is_file():
            continue
        try:
            root = ElementTree.parse(path).getroot()
        except ElementTree.ParseError as error:
            raise ValueError(f"{path}: {error}") from error
        named = [found.findtext("value", "") for found in root if found.findtext("name", "").strip() == _LISTED]
        return [service.strip() for service in ",".join(named[-1:]).split(",") if service.strip()]
    return []
