"""Milepost's manager of checkpoint files in the JVM of a driver. Without it Spark writes each file by nine requests."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError

from milepost.jvm import FILE_MANAGER, FILE_MANAGERS, path
from milepost.spark.driver.calls import describe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

_LOADER: Final = "org.apache.spark.util.MutableURLClassLoader"
"""The class loader that spark-submit gives to the threads of a driver, for the jars of the job."""


def file_manager(spark: SparkSession) -> Mapping[str, str]:
    """Return the setting by which the queries of a session write their checkpoints with Milepost's manager, and have
    the driver's JVM load it; executors get it from the manager itself.

    Empty if the session has a manager already, or if the JVM takes no further classes: Spark's own manager is slower,
    and writes the same files.
    """
    jvm: Any = spark._jvm
    try:
        if spark.conf.get(FILE_MANAGER, None) not in (None, *FILE_MANAGERS):
            return {}
        threads = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        name = _loaded(threads)
        if name is None and (loader := _mutable(threads)) is not None:
            loader.addURL(jvm.java.io.File(str(path())).toURI().toURL())
            name = _loaded(threads)
    except (Py4JError, OSError) as error:
        _log.info("Spark's own manager writes the checkpoints, with more requests: %s", describe(error))
        return {}
    if name is None:
        _log.info("Spark's own manager writes the checkpoints, with more requests: the driver cannot load Milepost's")
        return {}
    return {FILE_MANAGER: name}


def _loaded(loader: Any) -> str | None:
    """Return the manager that a class loader has; None if it has none."""
    for name in FILE_MANAGERS:
        try:
            loader.loadClass(name)
        except Py4JError:
            continue
        return name
    return None


def _mutable(loader: Any) -> Any:
    """Return the first class loader that takes further jars, from a loader upwards; None if there is none."""
    while loader is not None and loader.getClass().getName() != _LOADER:
        loader = loader.getParent()
    return loader
