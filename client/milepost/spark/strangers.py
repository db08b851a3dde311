"""Warns if the token for a job's files goes to an address other than that of its service.

Hadoop's client takes the token and the epoch's header from the settings of a session, and sends them with each WebHDFS
request of that session, whatever its address: docs/decisions/0081.
"""

from __future__ import annotations

import logging
from urllib.parse import urlsplit

from milepost.core.checkpoint_location import CREDENTIAL, CheckpointLocation

_log = logging.getLogger(__name__)
_SCHEMES = ("webhdfs", "swebhdfs")


def warn_of_strangers(location: CheckpointLocation, where: str, what: str) -> None:
    """Log a warning if requests to the URL ``where`` carry the job's token although its service is not there. ``what``
    names the query's part that reads from or writes to ``where``.
    """
    url = urlsplit(where)
    if CREDENTIAL not in location.settings or url.scheme not in _SCHEMES:
        return
    if url.netloc != urlsplit(location.url).netloc:
        _log.warning(
            "%s uses %s://%s under the settings of this session, so the token of the job's files goes there; with it, "
            "others can read and write these files until the next driver leads: take another scheme than WebHDFS",
            what,
            url.scheme,
            url.netloc.rpartition("@")[2],
        )
