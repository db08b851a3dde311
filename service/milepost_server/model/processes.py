"""Define what a session's record says about the process that holds the session, for people to read."""

from __future__ import annotations

import msgspec


class Process(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The process that holds a session, as its client describes it: no decision depends on it.

    ``host`` is the name of its machine, ``pid`` its id there, ``application`` the id of its application in Spark, and
    ``ui`` the address of Spark's user interface. Each is empty or 0 if the client did not state it.
    """

    host: str = ""
    pid: int = 0
    application: str = ""
    ui: str = ""
