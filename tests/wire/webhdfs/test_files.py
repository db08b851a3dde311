"""What Hadoop's file system asks of a job's tree, and what each answer has to be."""

from __future__ import annotations

import hashlib
from typing import Any

import httpx
import pytest

from tests.wire.support.api import Api
from tests.wire.webhdfs.hadoop import Tree, refused

LARGE = bytes(range(256)) * 4096


@pytest.fixture
def tree(api: Api) -> Tree:
    """The tree of a job that this test leads."""
    return Tree(api.http, api.store, api.campaign().json()["epoch"])


@pytest.mark.parametrize("content", [b"", b"v1", b"x" * 4095, b"x" * 4096, LARGE], ids=len)
def test_a_file_is_read_as_it_was_put_from_any_offset(tree: Tree, content: bytes) -> None:
    assert tree.create("a/b/file", content).status_code == 201
    for offset in {0, len(content) // 2, len(content)}:
        answer = tree.read("a/b/file", offset)
        assert answer.status_code == 200
        assert answer.content == content[offset:]
        assert tree.read("a/b/file", offset, length=7).content == content[offset : offset + 7]
    status = tree.status("a/b/file")
    assert (status["length"], status["type"], status["pathSuffix"]) == (len(content), "FILE", "")
    assert tree.status("a/b")["type"] == "DIRECTORY"


def test_a_file_is_there_once_its_last_byte_has_come(tree: Tree) -> None:
    first = tree.ask("PUT", "file", "CREATE")
    assert first.status_code == 307
    assert first.content == b""
    refused(tree.ask("GET", "file", "GETFILESTATUS"), 404, "FileNotFoundException")
    assert "?" in first.headers["location"]
    assert tree.send(first.headers["location"], b"v1").status_code == 201
    assert tree.read("file").content == b"v1"


def test_a_put_that_is_sent_twice_is_made_once(tree: Tree) -> None:
    location = tree.ask("PUT", "file", "CREATE", overwrite="false").headers["location"]
    assert tree.send(location, b"v1").status_code == 201
    assert tree.send(location, b"v1").status_code == 201
    refused(tree.create("file", b"v2"), 403, "FileAlreadyExistsException")
    assert tree.create("file", b"v2", overwrite=True).status_code == 201
    assert tree.read("file").content == b"v2"


def test_listings(tree: Tree, http: httpx.Client) -> None:
    for path in ("state/0/1.delta", "state/0-x", "state/1/1.delta", "state/0/2.delta", "offsets/0"):
        tree.create(path, b"x")
    assert tree.names() == ["offsets", "state"]
    assert tree.names("state") == ["0", "0-x", "1"]
    assert tree.names("state/0") == ["1.delta", "2.delta"]
    assert tree.names("state/0/1.delta") == [""]
    refused(tree.ask("GET", "nowhere", "LISTSTATUS"), 404, "FileNotFoundException")
    batch = tree.ask("GET", "state", "LISTSTATUS_BATCH", startAfter="0").json()["DirectoryListing"]
    statuses = batch["partialListing"]["FileStatuses"]["FileStatus"]
    assert [status["pathSuffix"] for status in statuses] == ["0-x", "1"]
    assert batch["remainingEntries"] == 0
    jobs = http.get("/webhdfs/v1/jobs", params={"op": "LISTSTATUS"}).json()["FileStatuses"]["FileStatus"]
    assert tree.job in [status["pathSuffix"] for status in jobs]


def test_a_file_is_one_block_at_no_machine_in_particular(tree: Tree) -> None:
    tree.create("state/1.delta", LARGE)

    def blocks(path: str, **query: Any) -> list[tuple[int, int, list[str]]]:
        found = tree.ask("GET", path, "GETFILEBLOCKLOCATIONS", **query).json()["BlockLocations"]["BlockLocation"]
        return [(block["offset"], block["length"], block["hosts"]) for block in found]

    whole = [(0, len(LARGE), ["localhost"])]
    assert blocks("state/1.delta") == blocks("state/1.delta", offset=7, length=1) == whole
    assert blocks("state/1.delta", offset=len(LARGE)) == blocks("state/1.delta", length=0) == blocks("state") == []
    refused(tree.ask("GET", "nowhere", "GETFILEBLOCKLOCATIONS"), 404, "FileNotFoundException")


def test_renames(tree: Tree) -> None:
    tree.create("offsets/.0.tmp", b"v1")
    for _ in range(2):  # the second time as after a lost answer
        assert tree.rename("offsets/.0.tmp", "offsets/0").status_code == 200
    tree.create("offsets/.1.tmp", b"v2")
    refused(tree.rename("offsets/.1.tmp", "offsets/0"), 403, "FileAlreadyExistsException")
    assert tree.rename("offsets/.1.tmp", "offsets/0", None).json() == {"boolean": False}
    assert tree.rename("offsets/.1.tmp", "offsets/0", "OVERWRITE").status_code == 200
    assert tree.read("offsets/0").content == b"v2"
    refused(tree.rename("offsets/9", "offsets/8"), 404, "FileNotFoundException")
    refused(tree.rename("offsets/0", "nowhere/0"), 404, "FileNotFoundException")
    assert tree.names("offsets") == ["0"]


def test_deletes(tree: Tree) -> None:
    tree.create("a/b/c", b"x")
    refused(tree.delete("a"), 403, "PathIsNotEmptyDirectoryException")
    refused(tree.ask("DELETE", "a", "DELETE", recursive="False"), 403, "PathIsNotEmptyDirectoryException")
    assert tree.ask("DELETE", "a/b", "DELETE", recursive="True").json() == {"boolean": True}
    tree.create("a/b/c", b"x")
    assert tree.delete("a", recursive=True).json() == {"boolean": True}
    assert tree.delete("a", recursive=True).json() == {"boolean": False}
    assert tree.names() == []
    tree.create("a/b/d", b"y")
    assert tree.names("a/b") == ["d"]


def test_directories(tree: Tree) -> None:
    assert tree.mkdirs("a/b").json() == tree.mkdirs("a/b").json() == {"boolean": True}
    tree.create("a/file", b"x")
    refused(tree.mkdirs("a/file"), 403, "FileAlreadyExistsException")
    refused(tree.mkdirs("a/file/below"), 403, "ParentNotDirectoryException")
    refused(tree.create("a/file/below", b"x"), 403, "ParentNotDirectoryException")
    refused(tree.create("a", b"x"), 403, "FileAlreadyExistsException")


def test_a_directory_that_is_there_needs_no_epoch(tree: Tree, api: Api, http: httpx.Client) -> None:
    """Spark before 4.2 makes sure of the directories that it only reads."""
    tree.create("checkpoint/commits/0", b"v1")
    (snapshot,) = api.call("GET", "/tree").json()["snapshots"]
    snapshot = f".snapshot/@{snapshot['revision']}"
    other = Api.on(http, f"{api.store}-other")
    elsewhere = Tree(http, other.store, other.campaign().json()["epoch"])
    api.resign()
    api.other().campaign()
    mixed_up = {f"X-Milepost-{elsewhere.job}-{elsewhere.epoch}": "x"}
    for client, headers in ((tree, {}), (tree.under(None), {}), (tree.under(99), {}), (tree.under(None), mixed_up)):
        for path in ("", "checkpoint", "checkpoint/commits/", ".snapshot", snapshot, f"{snapshot}/checkpoint/commits"):
            assert client.ask("PUT", path, "MKDIRS", headers=headers).json() == {"boolean": True}, path
        for path in ("new", "checkpoint/new", f"{snapshot}/new", ".snapshot/new", ".snapshot/@1"):
            refused(client.ask("PUT", path, "MKDIRS", headers=headers), 403, "AccessControlException")
        for path in ("checkpoint/commits/0", f"{snapshot}/checkpoint/commits/0"):
            refused(client.ask("PUT", path, "MKDIRS", headers=headers), 403, "FileAlreadyExistsException")
    assert tree.names() == ["checkpoint"]


def test_an_older_epoch_is_denied_whatever_it_asks_for(tree: Tree, api: Api) -> None:
    """Hadoop's client asks again after most refusals, but never after this one."""
    tree.create("file", b"v1")
    location = tree.ask("PUT", "late", "CREATE").headers["location"]
    api.resign()
    newer = tree.under(api.other().campaign().json()["epoch"])
    for zombie in (tree, tree.under(None), tree.under(99)):
        for answer in (
            zombie.create("other", b"x"),
            zombie.rename("file", "other"),
            zombie.delete("file"),
            zombie.mkdirs("other"),
        ):
            assert "epoch" in refused(answer, 403, "AccessControlException")
    refused(tree.send(location, b"bytes that were on their way"), 403, "AccessControlException")
    assert tree.read("file").content == b"v1"
    assert newer.names() == ["file"]
    assert newer.create("file", b"v2", overwrite=True).status_code == 201


def test_a_header_of_another_job_is_denied(tree: Tree) -> None:
    answer = tree.under(None).ask("PUT", "d", "MKDIRS", headers={f"X-Milepost-{tree.job}x-{tree.epoch}": "x"})
    assert f"{tree.job}x" in refused(answer, 403, "AccessControlException").lower()


def test_temporary_files_of_an_older_epoch_are_gone(tree: Tree, api: Api) -> None:
    tree.create("offsets/.0.tmp", b"v1")
    tree.create("offsets/0", b"v1")
    api.resign()
    newer = tree.under(api.other().campaign().json()["epoch"])
    assert newer.names("offsets") == ["0"]


@pytest.mark.parametrize(
    ("method", "path", "op"),
    [
        ("GET", "", "GETACLSTATUS"),
        ("PUT", "x", "SETOWNER"),
        ("DELETE", "x", "CREATE"),
        ("POST", "x", "APPEND"),
        ("GET", "", ""),
    ],
)
def test_what_is_not_answered_is_refused_by_name(tree: Tree, method: str, path: str, op: str) -> None:
    assert op in refused(tree.ask(method, path, op), 403, "IOException")


def test_a_summary_counts_all_that_is_below(tree: Tree, http: httpx.Client) -> None:
    tree.mkdirs("a/empty")
    tree.create("a/b/one", b"x")
    tree.create("a/b/large", LARGE)
    tree.create("ab", b"xyz")
    tree.create("a/gone", b"x")
    tree.delete("a/gone")
    tree.create("a/swept/x", b"x")
    tree.delete("a/swept", recursive=True)
    size = len(LARGE) + 1
    for path, files, directories, length in (
        ("", 3, 4, size + 3),
        ("a", 2, 3, size),
        ("a/b/one", 1, 0, 1),
        ("a/empty", 0, 1, 0),
    ):
        told = tree.ask("GET", path, "GETCONTENTSUMMARY").json()["ContentSummary"]
        assert (told["fileCount"], told["directoryCount"], told["length"]) == (files, directories, length)
        assert (told["spaceConsumed"], told["quota"], told["spaceQuota"]) == (length, -1, -1)
        used = tree.ask("GET", path, "GETQUOTAUSAGE").json()["QuotaUsage"]
        assert (used["fileAndDirectoryCount"], used["spaceConsumed"]) == (files + directories, length)
    status = tree.ask("GET", "a", "GETSTATUS").json()["FsStatus"]
    assert (status["used"], status["capacity"] - status["remaining"]) == (size + 3, size + 3)
    for op in ("GETCONTENTSUMMARY", "GETQUOTAUSAGE"):
        refused(tree.ask("GET", "nowhere", op), 404, "FileNotFoundException")
        for path in ("", "jobs"):
            assert op in refused(http.get(f"/webhdfs/v1/{path}", params={"op": op}), 403, "IOException")
    assert http.get("/webhdfs/v1/", params={"op": "GETSTATUS"}).json()["FsStatus"]["used"] == 0


def test_a_summary_of_snapshots(tree: Tree) -> None:
    tree.create("q/commits/0", b"v1")
    tree.create("q/state/0", b"xx")
    tree.create("q/commits/1", b"v1")
    tree.delete("q/state/0")
    first, second = sorted(tree.names(".snapshot"), key=lambda name: int(name.removeprefix("@")))

    def counted(path: str) -> tuple[int, int, int]:
        told = tree.ask("GET", path, "GETCONTENTSUMMARY").json()["ContentSummary"]
        return told["fileCount"], told["directoryCount"], told["length"]

    assert counted("") == (2, 4, 4)
    assert counted(f".snapshot/{first}") == (1, 3, 2)
    assert counted(f".snapshot/{second}") == (3, 4, 6)
    assert counted(f".snapshot/{second}/q/state") == (1, 1, 2)
    assert counted(f".snapshot/{second}/q/state/0") == (1, 0, 2)
    assert counted(".snapshot") == (4, 8, 8)


def test_a_checksum_of_hdfs_is_refused_with_the_digest_that_there_is(tree: Tree) -> None:
    tree.create("file", b"v1")
    tree.mkdirs("d")
    told = refused(tree.ask("GET", "file", "GETFILECHECKSUM"), 403, "IOException")
    assert "GETFILECHECKSUM" in told
    assert hashlib.sha256(b"v1").hexdigest() in told
    for path in ("nowhere", "d"):
        refused(tree.ask("GET", path, "GETFILECHECKSUM"), 404, "FileNotFoundException")


def test_the_trash_of_a_job_is_in_its_tree_and_makes_no_cut(tree: Tree, http: httpx.Client) -> None:
    root = tree.ask("GET", "q/commits/0", "GETTRASHROOT").json()["Path"]
    assert root == f"/jobs/{tree.job}/.Trash/milepost"
    assert http.get("/webhdfs/v1/jobs", params={"op": "GETTRASHROOT"}).json()["Path"] == "/.Trash/milepost"
    tree.create("q/commits/0", b"v1")
    (kept,) = tree.names(".snapshot")
    below = root.removeprefix(f"/jobs/{tree.job}/")
    tree.mkdirs(f"{below}/Current/jobs/{tree.job}")
    assert tree.rename("q", f"{below}/Current/jobs/{tree.job}/q", "TO_TRASH").status_code == 200
    assert tree.names(".snapshot") == [kept]
    assert tree.read(f"{below}/Current/jobs/{tree.job}/q/commits/0").content == b"v1"


@pytest.mark.parametrize("path", ["a//b", "a/%2e%2e/b", "a%2Fb", "x" * 1025])
def test_paths_that_no_file_has(tree: Tree, path: str) -> None:
    refused(tree.ask("GET", path, "GETFILESTATUS"), 400, "IllegalArgumentException")


def test_above_the_trees_nothing_is_changed(http: httpx.Client) -> None:
    for path in ("", "jobs", "jobs/"):
        assert http.get(f"/webhdfs/v1/{path}", params={"op": "GETFILESTATUS"}).status_code == 200
        assert http.put(f"/webhdfs/v1/{path}", params={"op": "MKDIRS"}).json() == {"boolean": True}
        refused(http.put(f"/webhdfs/v1/{path}", params={"op": "CREATE"}), 403, "AccessControlException")
    refused(http.get("/webhdfs/v1/tmp", params={"op": "GETFILESTATUS"}), 404, "FileNotFoundException")
