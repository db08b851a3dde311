"""The options of the data source."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from milepost.client import Client
from milepost.core.calls.request import checked_name
from milepost.drivers.environment import addresses_in

PUBLISHED: Final = "published"
BATCHES: Final = "batches"
HISTORY: Final = "history"
FILES: Final = "files"
JOBS: Final = "jobs"

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

_SERVICE: Final = ("url", "token", "token_file", "verify", "cert", "key", "timeout")
_OF_TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    PUBLISHED: ("store", "batches"),
    BATCHES: ("store", "batches"),
    HISTORY: ("store",),
    FILES: ("store", "snapshot"),
    JOBS: (),
}
_OF_STREAMS: Final[Mapping[str, tuple[str, ...]]] = {
    PUBLISHED: ("store", "startingBatch", "maxBatchesPerTrigger", "acceptRestore", "failOnDataLoss"),
    HISTORY: ("store", "after", "failOnDataLoss"),
}
_RANGE = re.compile(r"(\d+)(-?)(\d*)")
_TRUTHS: Final = {"true": True, "false": False}


@dataclass(frozen=True)
class Options:
    """What the options of a query say. The ``repr`` omits the token.

    ``batches`` and ``snapshot`` restrict what a batch query reads; the options after them are those of streams.
    """

    table: str
    store: str
    timeout: float
    url: tuple[str, ...] | None = None
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    verify: str | bool | None = None
    cert: str | None = None
    key: str | None = None
    batches: tuple[range, ...] | None = None
    snapshot: str | None = None
    starting_batch: str = EARLIEST
    most_batches: int | None = None
    accept_restore: int | None = None
    fail_on_data_loss: bool = True
    after: str | None = None

    def client(self) -> Client:
        """Make a client of the service; without ``url``, the environment describes the service."""
        return Client(
            self.url,
            token=self.token,
            token_file=self.token_file,
            timeout=self.timeout,
            verify=self.verify,
            cert=self.cert,
            key=self.key,
        )


def options_from(given: Mapping[str, str], *, stream: bool | None = None) -> Options:
    """Read the options of a batch query or a stream, whose names are in any case. ``stream`` is None where it is not
    known yet which of the two it is.

    Raises ValueError for an unknown option or value, and `InvalidName` for a store that cannot exist. No error contains
    the value of an option of the service, which may be a secret.
    """
    found = {name.lower(): value for name, value in given.items()}
    table = found.pop("table", PUBLISHED)
    tables = _OF_STREAMS if stream else _OF_TABLES
    if table not in tables:
        what = "a stream of the table" if table in _OF_TABLES else "the table"
        raise ValueError(f"the data source milepost does not have {what} {table!r}: it has {', '.join(tables)}")
    what = {None: "the table", False: "a batch query of the table", True: "a stream of the table"}[stream]
    either = _OF_STREAMS.get(table, ()) if stream is None else ()
    known = tuple(dict.fromkeys((*_SERVICE, *tables[table], *either)))
    _check_known(found, known, f"{what} {table!r}")
    if "store" in known and not found.get("store"):
        raise ValueError(f"the table {table!r} is that of one job: name it by the option store")
    return Options(
        table=table,
        store=checked_name(found["store"], "store") if "store" in known else "",
        timeout=_seconds(found.get("timeout", "30")),
        url=addresses_in(found["url"]) if "url" in found else None,
        token=found.get("token"),
        token_file=found.get("token_file"),
        verify=_TRUTHS.get(found["verify"].lower(), found["verify"]) if "verify" in found else None,
        cert=found.get("cert"),
        key=found.get("key"),
        batches=_batches(found["batches"]) if "batches" in found else None,
        snapshot=found.get("snapshot"),
        starting_batch=_start(found.get("startingbatch", EARLIEST)),
        most_batches=_number(found, "maxBatchesPerTrigger", least=1),
        accept_restore=_number(found, "acceptRestore", least=1),
        fail_on_data_loss=_truth(found.get("failondataloss", "true"), "failOnDataLoss"),
        after=found.get("after"),
    )


def _check_known(found: Collection[str], known: Collection[str], what: str) -> None:
    lower = {name.lower() for name in known}
    unknown = sorted(name for name in found if name not in lower)
    if unknown:
        raise ValueError(f"{what} has no option {', '.join(unknown)}: it has table, {', '.join(known)}")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ValueError(f"the option timeout must be a number of seconds above 0, not {text!r}")
    return seconds


def _number(found: Mapping[str, str], name: str, *, least: int) -> int | None:
    text = found.get(name.lower())
    if text is None:
        return None
    if not text.isdecimal() or int(text) < least:
        raise ValueError(f"the option {name} must be a whole number from {least} on, not {text!r}")
    return int(text)


def _truth(text: str, name: str) -> bool:
    if text.lower() not in _TRUTHS:
        raise ValueError(f"the option {name} must be true or false, not {text!r}")
    return _TRUTHS[text.lower()]


def _start(text: str) -> str:
    if text not in (EARLIEST, LATEST) and not text.isdecimal():
        raise ValueError(f"the option startingBatch must be {EARLIEST}, {LATEST} or a number, not {text!r}")
    return text


def _batches(text: str) -> tuple[range, ...]:
    """Read numbers and ranges of batches, such as ``3,7-9,20-``; a range without an end has all later batches."""
    found = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"the option batches must be numbers and ranges such as 3,7-9,20-, not {text!r}")
        first, last = int(match[1]), match[3]
        found.append(range(first, int(last) + 1 if last else _NO_END if match[2] else first + 1))
    return tuple(found)


_NO_END: Final = 2**63
