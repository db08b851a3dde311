"""Translate what the HDFS client raises into the errors of the contract; no other module does.

The client reports a NameNode's refusal by a RuntimeError with the Java exception in its text, and a few common ones by
Python's own kinds of OSError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from backends.contract import BackendError, Misconfigured, StorageFull, StorageUnavailable

_REFUSAL = re.compile(r'(?:Fatal)?RPCError\("(?:[\w$]+\.)*([\w$]+)", "(.*)"\)\Z', re.DOTALL)

_FULL = frozenset(
    {
        "DSQuotaExceededException",
        "NSQuotaExceededException",
        "QuotaByStorageTypeExceededException",
        "QuotaExceededException",
    }
)
_NOT_ALLOWED = frozenset({"AccessControlException", "AuthorizationException", "SecretManager$InvalidToken"})
# The path leads through a file; the kind of request decides under which name the NameNode refuses that.
_NO_DIRECTORY = "ParentNotDirectoryException"
_NOT_A_DIRECTORY = " (is not a directory)"
_NOT_EMPTY = "PathIsNotEmptyDirectoryException"
_STANDS_BY = "StandbyException"
# No DataNode was chosen for a block: either there is none, or none has room. This pattern is for the latter.
_NO_ROOM = re.compile(r"could only be (?:written|replicated) to 0 .*There are [1-9][0-9]* datanode\(s\) running")
# The client itself finds these faults in its configuration or credentials.
_SET_UP = ("InvalidArgument(", "UrlParseError(", "XmlParseError(", "SASLError(", "GSSAPIError(", "NoSASLMechanism")


class NotThere(BackendError):
    """The file or directory does not exist. The reader, writer or lister says what that means."""


class AlreadyThere(BackendError):
    """The file or directory that should be made is already there."""


class Broken(StorageUnavailable):
    """A connection was not made, or broke, so the request may be done or not; or the NameNode is a standby."""


class NotEmpty(BackendError):
    """A directory was not removed because it is not empty."""


@contextmanager
def translate_errors(doing: str, *, set_up: bool = False) -> Iterator[None]:
    """Translate what one call raises; ``doing`` completes "cannot …".

    Missing permissions and other faults of the set-up are `Misconfigured` while the store is being opened. Afterwards
    they are `StorageUnavailable`, since somebody may repair them while the server runs.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise NotThere(f"cannot {doing}: {_first_line(error)}") from error
    except FileExistsError as error:
        raise AlreadyThere(f"cannot {doing}: {_first_line(error)}") from error
    except TimeoutError as error:
        raise StorageUnavailable(f"cannot {doing}: HDFS did not answer in time") from error
    except OSError as error:
        raise Broken(f"cannot {doing}: {_first_line(error)}") from error
    except NotImplementedError as error:  # for example encryption zones
        kind = Misconfigured if set_up else StorageUnavailable
        raise kind(f"cannot {doing}: the client does not support {_first_line(error)}") from error
    except RuntimeError as error:
        raise _translated(doing, str(error), set_up) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # pyo3's exception, which cannot be imported
            raise
        raise StorageUnavailable(f"cannot {doing}: the HDFS client panicked") from error


def _translated(doing: str, answer_text: str, set_up: bool) -> BackendError:
    refusal = _REFUSAL.match(answer_text)
    if refusal is None:
        kind: type[BackendError] = StorageUnavailable
        if set_up and answer_text.startswith(_SET_UP):
            kind = Misconfigured
        return kind(f"cannot {doing}: {_shortened(answer_text)}")
    exception, message = refusal[1], refusal[2]
    text = f"cannot {doing}: {exception}: {_shortened(message)}"
    if exception == _NO_DIRECTORY or _shortened(message).endswith(_NOT_A_DIRECTORY):
        return NotThere(text)
    if exception == _NOT_EMPTY:
        return NotEmpty(text)
    if exception == _STANDS_BY:
        return Broken(text)
    if exception in _FULL or _NO_ROOM.search(message):
        return StorageFull(text)
    if set_up and exception in _NOT_ALLOWED:
        return Misconfigured(text)
    return StorageUnavailable(text)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _shortened(answer_text: str) -> str:
    r"""Return the text without the Java stack, which follows a line break that the client has written as ``\n``."""
    return answer_text.partition("\\n")[0][:500]
