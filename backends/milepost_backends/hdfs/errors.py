"""Translates exceptions of the HDFS client into errors of the contract and of this package.

The client reports most refusals of a NameNode as a RuntimeError whose text contains the name of the Java exception. It
reports a few common ones as Python's own kinds of OSError, such as FileNotFoundError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from milepost_backends.contract import BackendError, Misconfigured, StorageFull, StorageRefused, StorageUnavailable

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
# Exceptions for requests that the NameNode will always refuse: the request is unknown, or a path or option is invalid.
_NEVER = frozenset(
    {
        "HadoopIllegalArgumentException",
        "IllegalArgumentException",
        "InvalidPathException",
        "InvalidRequestException",
        "FSLimitException$PathComponentTooLongException",
        "RpcNoSuchMethodException",
        "RpcNoSuchProtocolException",
        "SnapshotAccessControlException",
        "UnsupportedOperationException",
    }
)
_REPLICATION = re.compile(r"Requested replication factor of \d+ (?:exceeds maximum|is less than)")
# If a directory in a path is in fact a file, the NameNode answers some requests with this exception, and others with an
# exception whose message has this end.
_PARENT_IS_A_FILE = "ParentNotDirectoryException"
_IS_A_FILE_MESSAGE_END = " (is not a directory)"
_NOT_EMPTY = "PathIsNotEmptyDirectoryException"
_IS_STANDBY = "StandbyException"
# The message if no DataNode has room for a block. If no DataNode is running at all, the message has another number.
_NO_ROOM = re.compile(r"could only be (?:written|replicated) to 0 .*There are [1-9][0-9]* datanode\(s\) running")
# The messages of the client's own errors about its configuration or credentials begin with these names.
_BAD_SETUP = ("InvalidArgument(", "UrlParseError(", "XmlParseError(", "SASLError(", "GSSAPIError(", "NoSASLMechanism")


class PathMissing(BackendError):
    """The file or directory does not exist.

    This is not an error of the contract, so a caller translates it: a blob store raises `BlobMissing`, for example.
    """


class PathExists(BackendError):
    """There is already a file or directory at the path at which a request should make one."""


class ConnectionBroken(StorageUnavailable):
    """A connection could not be made, or broke; or the NameNode is a standby. The request may have been carried out.

    After this error, and no other, `HdfsConnection.ask` sends its request again.
    """


class DirectoryNotEmpty(BackendError):
    """A directory was not removed because it is not empty."""


@contextmanager
def translate_errors(doing: str, *, set_up: bool = False) -> Iterator[None]:
    """Translate the exceptions of one call of the HDFS client; ``doing`` completes the message "cannot …".

    ``set_up`` is true while the blob store is being opened. Then missing permissions, faults of the configuration and
    requests that the NameNode would always refuse raise `Misconfigured`. Afterwards they raise `StorageRefused`, since
    an operator may repair them while the server runs.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise PathMissing(f"cannot {doing}: {_first_line(error)}") from error
    except FileExistsError as error:
        raise PathExists(f"cannot {doing}: {_first_line(error)}") from error
    except TimeoutError as error:  # not `ConnectionBroken`, unlike any other OSError: the call may still be running
        raise StorageUnavailable(f"cannot {doing}: HDFS did not answer in time") from error
    except OSError as error:
        raise ConnectionBroken(f"cannot {doing}: {_first_line(error)}") from error
    except NotImplementedError as error:  # the client raises it for encryption zones, for example
        kind = Misconfigured if set_up else StorageRefused
        raise kind(f"cannot {doing}: the client does not support {_first_line(error)}") from error
    except RuntimeError as error:
        raise _translated(doing, str(error), set_up) from error
    except BaseException as error:
        # a panic of the client's Rust code: its class cannot be imported, so its name is compared
        if type(error).__name__ != "PanicException":
            raise
        raise StorageUnavailable(f"cannot {doing}: the HDFS client panicked") from error


def _translated(doing: str, answer_text: str, set_up: bool) -> BackendError:
    refusal = _REFUSAL.match(answer_text)
    if refusal is None:
        kind: type[BackendError] = StorageUnavailable
        if set_up and answer_text.startswith(_BAD_SETUP):
            kind = Misconfigured
        return kind(f"cannot {doing}: {_shortened(answer_text)}")
    exception, message = refusal[1], refusal[2]
    text = f"cannot {doing}: {exception}: {_shortened(message)}"
    if exception == _PARENT_IS_A_FILE or _shortened(message).endswith(_IS_A_FILE_MESSAGE_END):
        return PathMissing(text)
    if exception == _NOT_EMPTY:
        return DirectoryNotEmpty(text)
    if exception == _IS_STANDBY:
        return ConnectionBroken(text)
    if exception in _FULL or _NO_ROOM.search(message):
        return StorageFull(text)
    if exception in _NOT_ALLOWED or exception in _NEVER or _REPLICATION.search(message):
        return Misconfigured(text) if set_up else StorageRefused(text)
    return StorageUnavailable(text)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _shortened(answer_text: str) -> str:
    r"""Return the text without the Java stack, which follows a line break that the client has written as ``\n``."""
    return answer_text.partition("\\n")[0][:500]
