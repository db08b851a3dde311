"""Reads the history of a job from a service that may be of a release without histories."""

from __future__ import annotations

from milepost.client import Client
from milepost.errors import InvalidRequest, NotExist, NotSupported
from milepost.job_types import HistoryEntry
from milepost.wire import Code


def history_in(client: Client, job: str) -> list[HistoryEntry]:
    """Return the history of a job, the oldest entry first; nothing if the service has no such job, or no histories."""
    try:
        return list(client.job_history(job))[::-1]
    except (NotExist, NotSupported):
        return []
    except InvalidRequest as refused:
        if refused.code not in (Code.NO_ROUTE, Code.METHOD_NOT_ALLOWED):
            raise
        return []
