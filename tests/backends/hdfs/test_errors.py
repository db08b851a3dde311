"""What the NameNode's refusals mean to the service, while a store is opened and later."""

from __future__ import annotations

import pytest

from milepost_backends.contract import BackendError, Misconfigured, StorageFull, StorageRefused, StorageUnavailable
from milepost_backends.hdfs.errors import translate_errors

JAVA = {
    "org.apache.hadoop.security.AccessControlException": "Permission denied: user=stranger, access=WRITE",
    "org.apache.hadoop.ipc.RpcNoSuchMethodException": "Unknown method rename2 called on ClientProtocol",
    "org.apache.hadoop.ipc.RpcNoSuchProtocolException": "Unknown protocol",
    "org.apache.hadoop.HadoopIllegalArgumentException": "Missing storageIDs",
    "java.lang.IllegalArgumentException": "Invalid value",
    "java.lang.UnsupportedOperationException": "The method is not implemented",
    "org.apache.hadoop.fs.InvalidPathException": "Invalid path name /a//b",
    "org.apache.hadoop.fs.InvalidRequestException": "Cannot do that",
    "org.apache.hadoop.hdfs.protocol.FSLimitException$PathComponentTooLongException": "limit is 255",
    "org.apache.hadoop.hdfs.protocol.SnapshotAccessControlException": "Modification on a read-only snapshot",
    "java.io.IOException": "Requested replication factor of 9 exceeds maximum of 3 for /milepost/a",
}


def translated(exception: str, message: str, *, set_up: bool) -> BackendError:
    """What becomes of a refusal as the client reports it."""
    with pytest.raises(BackendError) as raised, translate_errors("do this", set_up=set_up):
        raise RuntimeError(f'RPCError("{exception}", "{message}\\n\\tat java")')
    assert exception.rpartition(".")[2] in str(raised.value)
    return raised.value


@pytest.mark.parametrize("exception", JAVA)
def test_what_would_be_refused_again_is_misconfigured_at_opening_and_not_repeated_later(exception: str) -> None:
    assert type(translated(exception, JAVA[exception], set_up=True)) is Misconfigured
    assert type(translated(exception, JAVA[exception], set_up=False)) is StorageRefused


@pytest.mark.parametrize("set_up", [True, False])
@pytest.mark.parametrize(
    ("exception", "message", "kind"),
    [
        ("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "Name node is in safe mode.", StorageUnavailable),
        ("org.apache.hadoop.ipc.RetriableException", "NameNode still not started", StorageUnavailable),
        ("java.io.IOException", "something else", StorageUnavailable),
        ("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", "The quota is exceeded", StorageFull),
    ],
)
def test_what_may_be_different_a_moment_later_is_an_outage(
    exception: str, message: str, kind: type[BackendError], set_up: bool
) -> None:
    assert type(translated(exception, message, set_up=set_up)) is kind
