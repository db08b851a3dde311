"""Where a journal lies in ZooKeeper, and what its head looks like.

::

    <root>/journals/<journal>/head-<term>-<lineage>           {"schema": 1, "term": …, …}
    <root>/journals/<journal>/records/<directory>/~c1/<name>  the value of the record <directory>/<name>
    <root>/founded/<journal>                                  made along with the journal, and never deleted

The head's name carries its term, so that the head of another term is another znode, whatever its version. It carries
the lineage too: after a restore from a snapshot two leaders may come to the same term.

Records of one directory are spread over 256 buckets by a hash of their name. An answer of ZooKeeper is meant to stay
below ``jute.maxbuffer``, 1 MiB; so a bucket has room for some thousand long names. No key has a ``~`` in it.
"""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import dataclass
from typing import Final

from backends.contract import Head, JournalDamaged

HEAD_PREFIX: Final = "head-"

_SCHEMA: Final = 1
_BUCKET: Final = re.compile(r"~[0-9a-f]{2}\Z")


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of one journal."""

    root: str
    journal: str

    @property
    def place(self) -> str:
        """The journal."""
        return f"{journals_of(self.root)}/{self.journal}"

    @property
    def founded(self) -> str:
        """What tells that the journal was made, when it is not there."""
        return f"{founded_of(self.root)}/{self.journal}"

    @property
    def records(self) -> str:
        """What all records lie under."""
        return f"{self.place}/records"

    def head(self, head: Head) -> str:
        """The head of one term."""
        return f"{self.place}/{head_name(head)}"

    def record(self, key: str) -> str:
        """One record."""
        directory, _, name = key.rpartition("/")
        bucket = f"~{zlib.crc32(name.encode()) & 0xFF:02x}"
        return "/".join(part for part in (self.records, directory, bucket, name) if part)

    def key(self, directory: str, name: str) -> str:
        """The key of the record ``name`` that lies in a bucket of ``directory``, a path."""
        below = directory[len(self.records) + 1 :]
        return f"{below}/{name}" if below else name


def journals_of(root: str) -> str:
    """What all journals lie under."""
    return f"{root}/journals"


def founded_of(root: str) -> str:
    """What tells of all journals that were made."""
    return f"{root}/founded"


def is_bucket(name: str) -> bool:
    """Whether the children of a znode with this name are records."""
    return _BUCKET.match(name) is not None


def head_name(head: Head) -> str:
    """The name of the znode that is this head, whatever its revision."""
    return f"{HEAD_PREFIX}{head.term:012d}-{head.lineage}"


def encode_head(head: Head) -> bytes:
    """As it is stored."""
    stored = {"schema": _SCHEMA, "term": head.term, "revision": head.revision, "lineage": head.lineage}
    return json.dumps({**stored, "digest": head.digest, "check": head.check}).encode()


def decode_head(layout: Layout, name: str, data: bytes) -> Head:
    """The head that is stored in the znode ``name``. Raises `JournalDamaged`."""
    path = f"{layout.place}/{name}"
    try:
        stored = json.loads(data)
    except ValueError as error:
        raise JournalDamaged(f"{path} holds no head: {data[:200]!r}") from error
    match stored:
        case {
            "schema": 1,
            "term": int(term),
            "revision": int(revision),
            "lineage": str(lineage),
            "digest": str(digest),
            "check": str(check),
        } if (head := Head(layout.journal, term, revision, lineage, digest)).check == check:
            pass
        case _:
            raise JournalDamaged(f"{path} holds no head: {data[:200]!r}")
    if head_name(head) != name:
        raise JournalDamaged(f"{path} holds the head of another term: {data[:200]!r}")
    return head
