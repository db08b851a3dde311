"""The border to HDFS: what its client raises becomes the contract's errors here, and nowhere else.

The client tells what a NameNode refused by a RuntimeError with the Java exception in its text, and a few common ones by
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
# A path that leads through a file; what is asked of it decides by which name the NameNode refuses that.
_NO_DIRECTORY = "ParentNotDirectoryException"
_NOT_A_DIRECTORY = " (is not a directory)"
_NOT_EMPTY = "PathIsNotEmptyDirectoryException"
_STANDS_BY = "StandbyException"
# No DataNode was chosen for a block: there is none, or none has room.
_NO_ROOM = re.compile(r"could only be (?:written|replicated) to 0 .*There are [1-9][0-9]* datanode\(s\) running")
# What the client itself finds wrong with its configuration or its credentials.
_SET_UP = ("InvalidArgument(", "UrlParseError(", "XmlParseError(", "SASLError(", "GSSAPIError(", "NoSASLMechanism")


class NotThere(BackendError):
    """There is no such file or directory. For reader, writer and lister to say what that means."""


class AlreadyThere(BackendError):
    """What was to be made is there already."""


class Broken(StorageUnavailable):
    """A connection could not be made, or broke: what was asked for may be done, or not. Or the NameNode stands by."""


class NotEmpty(BackendError):
    """A directory was not removed, for there is something in it."""


@contextmanager
def translate_errors(doing: str, *, set_up: bool = False) -> Iterator[None]:
    """Translate what one call raises; ``doing`` completes "cannot …".

    What is a matter of how things were set up, permissions and the like, is `Misconfigured` while the store is being
    opened, and `StorageUnavailable` afterwards, when it may be mended without us.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise NotThere(f"cannot {doing}: {_first_line(error)}") from error
    except FileExistsError as error:
        raise AlreadyThere(f"cannot {doing}: {_first_line(error)}") from error
    except TimeoutError as error:
        raise StorageUnavailable(f"cannot {doing}: no answer in time") from error
    except OSError as error:
        raise Broken(f"cannot {doing}: {_first_line(error)}") from error
    except NotImplementedError as error:  # encryption zones, for one
        kind = Misconfigured if set_up else StorageUnavailable
        raise kind(f"cannot {doing}: the client does not support {_first_line(error)}") from error
    except RuntimeError as error:
        raise _translated(doing, str(error), set_up) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # pyo3's, of which there is no name to catch it by
            raise
        raise StorageUnavailable(f"cannot {doing}: the HDFS client broke down") from error


def _translated(doing: str, told: str, set_up: bool) -> BackendError:
    refusal = _REFUSAL.match(told)
    if refusal is None:
        kind: type[BackendError] = StorageUnavailable
        if set_up and told.startswith(_SET_UP):
            kind = Misconfigured
        return kind(f"cannot {doing}: {_shortened(told)}")
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


def _shortened(told: str) -> str:
    r"""Without the Java stack, which follows after a line break that the client has written as ``\n``."""
    return told.partition("\\n")[0][:500]
