"""Files in the trees of jobs of a real service, each under an epoch that was granted for it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager

import milepost
from milepost.state.store import TreeFiles

_NUMBERS = itertools.count(1)


@contextmanager
def in_a_tree(url: str, prefix: str) -> Iterator[TreeFiles]:
    """Files in the tree of a job that nobody has used yet. Its driver's session ends with the block."""
    job = f"{re.sub(r'[^A-Za-z0-9_-]', '-', prefix)[:100]}-{next(_NUMBERS)}"
    with milepost.Client(url) as client, client.session(ttl=600) as session:
        epoch = session.store(job).campaign().epoch
        files = TreeFiles(url, job, epoch)
        try:
            yield files
        finally:
            files.close()
