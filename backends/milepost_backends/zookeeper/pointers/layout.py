"""The layout of a journal in ZooKeeper, and the encoding of its head.

::

    <root>/journals/<journal>/head-<term>-<lineage>           {"schema": 1, "term": …, …, "check": …}
    <root>/journals/<journal>/records/<directory>/~c1/<name>  the value of the record <directory>/<name>
    <root>/founded/<journal>                                  the witness: a copy of the head

The witness is made together with the journal, written in the transaction of each group, and never deleted. If another
program deletes the journal or replaces it by an older copy, the witness shows that it existed, and its last head.

The name of a head's znode contains the term. So each term has its own znode, and a write that is conditional on the
znode of an earlier term fails. The name also contains the lineage, since two leaders may come to the same term after a
restore from a backup.

Records of one directory are spread over 256 buckets, ``~00`` to ``~ff``, by a hash of their name: the list of a znode's
children must stay below ``jute.maxbuffer``, 1 MiB, which is room for some thousand long names. No key contains a
``~``.
"""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import dataclass, field
from typing import Final

from milepost_backends.contract import Head

HEAD_PREFIX: Final = "head-"
RECORDS: Final = "records"

_SCHEMA: Final = 1
_BUCKETS: Final = tuple(f"/~{number:02x}/" for number in range(256))
_BUCKET: Final = re.compile(r"~[0-9a-f]{2}\Z")


@dataclass(frozen=True, slots=True)
class ZnodeLayout:
    """The paths of the znodes of one journal."""

    root: str
    journal: str
    place: str = field(init=False)
    """The path of the znode of the journal."""
    witness: str = field(init=False)
    """The path of the witness: a copy of the journal's last head."""
    records: str = field(init=False)
    """The path of the znode below which all records of the journal are."""

    def __post_init__(self) -> None:
        """Compute the paths that each group needs many times."""
        place = f"{journals_of(self.root)}/{self.journal}"
        object.__setattr__(self, "place", place)
        object.__setattr__(self, "witness", f"{founded_of(self.root)}/{self.journal}")
        object.__setattr__(self, "records", f"{place}/{RECORDS}")

    def head(self, head: Head) -> str:
        """Return the path of the znode of ``head``. It depends on term and lineage, not on the revision."""
        return f"{self.place}/{head_name(head)}"

    def record(self, key: str) -> str:
        """Return the path of the znode of the record with this key."""
        directory, _, name = key.rpartition("/")
        bucket = _BUCKETS[zlib.crc32(name.encode()) & 0xFF]
        return f"{self.records}/{directory}{bucket}{name}" if directory else f"{self.records}{bucket}{name}"

    def key(self, directory: str, name: str) -> str:
        """Return the key of the record whose znode has this ``name``. ``directory`` is the path above the record's
        bucket.
        """
        below = directory[len(self.records) + 1 :]
        return f"{below}/{name}" if below else name


def journals_of(root: str) -> str:
    """Return the path below which the znodes of all journals are. ``root`` is the path in the address."""
    return f"{root}/journals"


def founded_of(root: str) -> str:
    """Return the path below which the witnesses of all journals are. ``root`` is the path in the address."""
    return f"{root}/founded"


def is_bucket(name: str) -> bool:
    """Return whether ``name`` is that of a bucket: one of the 256 znodes over which records are spread."""
    return _BUCKET.match(name) is not None


def head_name(head: Head) -> str:
    """Return the name of the znode of ``head``: ``head-<term>-<lineage>``."""
    return f"{HEAD_PREFIX}{head.term:012d}-{head.lineage}"


def encode_head(head: Head) -> bytes:
    """Return the form in which a head is stored in a znode: a JSON document with a checksum."""
    texts = (head.lineage, head.digest, head.check)
    # a text of letters and digits is the same as JSON writes it, and a head has no others
    lineage, digest, check = (f'"{text}"' if text.isascii() and text.isalnum() else json.dumps(text) for text in texts)
    return (
        f'{{"schema": {_SCHEMA}, "term": {head.term}, "revision": {head.revision}, "lineage": {lineage}, '
        f'"digest": {digest}, "check": {check}}}'
    ).encode()


def decode_head(journal: str, data: bytes) -> Head | None:
    """Return the head of ``journal`` in ``data``; None if ``data`` is not exactly the stored form of a valid head."""
    try:
        stored = json.loads(data)
    except (ValueError, RecursionError):
        return None
    match stored:
        case {
            "schema": 1,
            "term": int(term),
            "revision": int(revision),
            "lineage": str(lineage),
            "digest": str(digest),
            "check": str(check),
        } if (lineage + digest).isascii():
            head = Head(journal, term, revision, lineage, digest)
            return head if head.check == check and encode_head(head) == data else None
        case _:
            return None
