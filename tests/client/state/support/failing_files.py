"""Files that fail where a test says so. A place that is real cannot be made to fail between two given steps."""

from __future__ import annotations

from collections import deque
from enum import Enum

from milepost.state.errors import FilesError, WriteUnknown
from milepost.state.store import Created, FileInfo, StateFiles


class Crash(BaseException):
    """The process ended here: nothing but the test catches it."""


class Failure(Enum):
    """What becomes of one creation."""

    NONE = "it is created"
    REFUSED = "it fails, and nothing is there"
    LOST = "the outcome is unknown, and nothing is there"
    UNHEARD = "the outcome is unknown, and it is there"
    TORN_UNHEARD = "the outcome is unknown, and a part of it is there"
    CRASH_BEFORE = "the process ends before it"
    CRASH_AFTER = "the process ends after it"
    CRASH_WITHIN = "the process ends, and a part of it is there"


class FailingFiles(StateFiles):
    """Passes on each call, and fails the next creations and deletions as it is told."""

    def __init__(self, files: StateFiles) -> None:
        self.files = files
        self.creations: deque[Failure] = deque()
        self.deletions_before_crash: int | None = None
        self.torn: set[str] = set()
        self.unreadable = False
        self.bytes_read = 0
        self.bytes_written = 0

    def create(self, name: str, content: bytes) -> Created:
        failure = self.creations.popleft() if self.creations else Failure.NONE
        if failure is Failure.REFUSED:
            raise FilesError("no place for it")
        if failure is Failure.CRASH_BEFORE:
            raise Crash
        created = Created.DONE
        if failure is not Failure.LOST:
            torn = failure in (Failure.TORN_UNHEARD, Failure.CRASH_WITHIN)
            created = self.files.create(name, content[: len(content) * 2 // 3] if torn else content)
            self.bytes_written += len(content)
            if torn and created is Created.DONE:
                self.torn.add(name)
        if failure in (Failure.CRASH_AFTER, Failure.CRASH_WITHIN):
            raise Crash
        if failure in (Failure.LOST, Failure.UNHEARD, Failure.TORN_UNHEARD):
            raise WriteUnknown("no answer came")
        return created

    def read(self, name: str, start: int, length: int) -> bytes:
        if self.unreadable:
            raise FilesError("no answer came")
        found = self.files.read(name, start, length)
        self.bytes_read += len(found)
        return found

    def list(self, directory: str) -> list[FileInfo]:
        return self.files.list(directory)

    def delete(self, name: str) -> None:
        if self.deletions_before_crash is not None:
            self.deletions_before_crash -= 1
            if self.deletions_before_crash < 0:
                self.deletions_before_crash = None
                raise Crash
        self.files.delete(name)
