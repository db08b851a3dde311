"""Claims: each job stores its identity beside its output, so that another job cannot publish there by mistake.

If a driver's address leads to the wrong service, or the service's storage was emptied, the service does not know the
job, or knows a different job of the same name. Without claims, the driver would begin the job at batch 0, under another
transaction id, and publish the same input a second time. With claims, it fails before the first batch.

A claim is one small file in `DIRECTORY`. Its *name* contains all its information, so even a file that is only half
written is a valid claim.
"""

from __future__ import annotations

import json
import logging
import re
from typing import Protocol

from py4j.protocol import Py4JError, Py4JJavaError

from milepost.errors import JobUnknown, UnsafeQuery
from milepost.job_record import JobRecord, published_by_files
from milepost.origin import Origin
from milepost.spark.driver.calls import describe
from milepost.spark.output.file_systems import SCHEME, HadoopFiles, LocalFiles
from milepost.spark.output.manifest import DIRECTORY

_log = logging.getLogger(__name__)
_CLAIM = re.compile(r"job-(?P<store>.+)-(?P<job>[0-9a-f]{32})\.json\Z")


class Files(Protocol):
    """The file operations that a claim uses; `HadoopFiles` and `LocalFiles` have them."""

    def names(self, path: str) -> list[str]: ...
    def write_new(self, path: str, content: bytes) -> None: ...


def claim_beside(hadoop: HadoopFiles, beside: str, store: str, record: JobRecord) -> None:
    """Claim the directory ``beside`` for the job ``store``, whose record is ``record``, as `claim` does.

    If the directory cannot be read or written, and the job has published before, log a warning and go on: the service
    that knows its batches is the one that the job ran with. Do nothing if `Job.files` published elsewhere before: the
    sink refuses this output with an error of its own.

    Raises `UnsafeQuery` if the job is a clone, and the directory is that of the job that it was cloned from.
    """
    output = hadoop.qualified(beside)
    if record.origin is not None and output in record.origin.outputs:
        raise _of_the_original(output, store, record.origin.source)
    if published_by_files(record.manifest) and record.manifest["output"] != output:
        return
    try:
        files = LocalFiles() if output.startswith(SCHEME) else hadoop
        if record.origin is not None:
            _refuse_originals(files, output, store, record.origin)
        claim(files, output, store, record.job)
    except (OSError, Py4JError) as error:
        if record.published < record.first_output:
            raise
        _log.warning("the claim in output %s could not be checked, going on without it: %s", output, describe(error))


def claim(files: Files, output: str, store: str, job: str) -> None:
    """Claim the directory ``output`` for the job whose identity is ``job`` and whose name is ``store``.

    Jobs with other names may share the output. Raises `JobUnknown` if a different job of the same name has claimed it
    before.
    """
    directory = f"{output}/{DIRECTORY}"
    own = f"job-{store}-{job}.json"
    known = _claims(files, directory, store)
    if not known:
        content = json.dumps({"store": store, "job": job, "txnAppId": f"milepost-{job}"}, indent=1) + "\n"
        try:
            files.write_new(f"{directory}/{own}", content.encode())
        except (FileExistsError, Py4JJavaError) as error:
            # A deposed driver of this job may have written the claim first.
            if own not in _claims(files, directory, store):
                raise
            _log.info(
                "claim %s/%s was written by another driver of this job meanwhile, which is fine: %s",
                directory,
                own,
                describe(error),
            )
        # Read again after writing: if two jobs of this name begin at the same time, at least one of them then finds two
        # claims.
        known = _claims(files, directory, store)
    others = [name for name in known if name != own]
    if others:
        raise JobUnknown(
            f"{output} holds the output of another job {store!r} ({directory}/{others[0]}), and this service does "
            f"not know that one, but {job}: is the address right, and its storage the one that the job ran with? To "
            "begin the job anew, publish to another directory, or remove that file and everything that was published"
        )


def _refuse_originals(files: Files, output: str, store: str, origin: Origin) -> None:
    """Raise `UnsafeQuery` if a job from which the clone ``store`` descends has claimed the directory ``output``."""
    for name, job in origin.lineage:
        if f"job-{name}-{job}.json" in _claims(files, f"{output}/{DIRECTORY}", name):
            raise _of_the_original(output, store, name)


def _of_the_original(output: str, store: str, source: str) -> UnsafeQuery:
    return UnsafeQuery(
        f"{output} has the output of the job {source!r}, of which {store!r} is a clone: give the clone a directory of "
        "its own"
    )


def _claims(files: Files, directory: str, store: str) -> list[str]:
    """Return the names of the claims of all jobs with the name ``store``."""
    found = ((name, _CLAIM.match(name)) for name in files.names(directory))
    return [name for name, match in found if match is not None and match["store"] == store]
