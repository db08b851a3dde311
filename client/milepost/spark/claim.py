"""Whose output a directory is: a job's identity kept beside what it publishes.

A service that is a stranger's, or was emptied, knows the job's name as that of another job, or begins one: at batch 0,
under another transaction id, over input that has been published. The claim tells before the first batch.

It is one small file in `DIRECTORY`, whose *name* says all that counts, so that a torn one says it too.
"""

from __future__ import annotations

import json
import logging
import re
from typing import Protocol

from py4j.protocol import Py4JJavaError

from milepost.errors import JobUnknown
from milepost.spark.manifest import DIRECTORY

_log = logging.getLogger(__name__)
_CLAIM = re.compile(r"job-(?P<store>.+)-(?P<job>[0-9a-f]{32})\.json\Z")


class Files(Protocol):
    """What a claim takes of `HadoopFiles` and `LocalFiles`."""

    def names(self, path: str) -> list[str]: ...
    def write_new(self, path: str, content: bytes) -> None: ...


def claim(files: Files, output: str, store: str, job: str) -> None:
    """Let ``output`` be known as that of ``job``, which its service knows as ``store``.

    Other jobs of other names may share it. Raises `JobUnknown` when ``store`` has been another job here.
    """
    directory = f"{output}/{DIRECTORY}"
    own = f"job-{store}-{job}.json"
    known = _claims(files, directory, store)
    if not known:
        content = json.dumps({"store": store, "job": job, "txnAppId": f"milepost-{job}"}, indent=1) + "\n"
        try:
            files.write_new(f"{directory}/{own}", content.encode())
        except (FileExistsError, Py4JJavaError) as error:
            # A driver of this job that does not know yet that it is none may have come first.
            if own not in _claims(files, directory, store):
                raise
            _log.info("%s/%s was written meanwhile: %s", directory, own, error)
        known = _claims(files, directory, store)  # two that began at once see each other's
    others = [name for name in known if name != own]
    if others:
        raise JobUnknown(
            f"{output} holds what another job {store!r} has published ({directory}/{others[0]}), and this service does "
            f"not know that one, but {job}: is the address right, and its storage the one that the job ran with? To "
            "begin the job anew, publish somewhere else, or remove that file with all that was published"
        )


def _claims(files: Files, directory: str, store: str) -> list[str]:
    """The claims of all jobs that were known as ``store``."""
    found = ((name, _CLAIM.match(name)) for name in files.names(directory))
    return [name for name, match in found if match is not None and match["store"] == store]
