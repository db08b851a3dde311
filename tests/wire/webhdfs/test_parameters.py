"""Parameters, as a NameNode reads them: each that it knows is heeded, and a value that is none is refused."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.wire.support.api import Api
from tests.wire.webhdfs.hadoop import Tree, refused

LARGE = bytes(range(256)) * 400


@pytest.fixture
def tree(api: Api) -> Tree:
    """The tree of a job that this test leads, with two files in a directory."""
    made = Tree(api.http, api.store, api.campaign().json()["epoch"])
    for name in ("d/a", "d/b"):
        assert made.create(name, b"v1").status_code == 201
    return made


def put(tree: Tree, path: str, content: bytes = b"v2", **query: Any) -> httpx.Response:
    first = tree.ask("PUT", path, "CREATE", **query)
    return first if first.status_code != 307 else tree.send(first.headers["location"], content)


@pytest.mark.parametrize("flags", ["CREATE,OVERWRITE", "overwrite,create", "CREATE,OVERWRITE,SYNC_BLOCK,NEW_BLOCK"])
def test_createflag_says_whether_a_file_is_replaced(tree: Tree, flags: str) -> None:
    for only_new in ("CREATE", "", "CREATE,LAZY_PERSIST"):
        refused(put(tree, "d/a", createflag=only_new), 403, "FileAlreadyExistsException")
    assert put(tree, "d/a", createflag=flags).status_code == 201
    assert tree.read("d/a").content == b"v2"
    assert put(tree, "d/a", b"v3", createflag="CREATE", overwrite="true").status_code == 201
    assert put(tree, "d/new", createflag=flags).status_code == 201


def test_a_file_is_not_appended_to_by_its_flag(tree: Tree) -> None:
    for flags in ("CREATE,APPEND", "APPEND", "OVERWRITE", "SYNC_BLOCK"):
        assert "once" in refused(put(tree, "d/a", createflag=flags), 403, "IOException")
    assert tree.read("d/a").content == b"v1"


def test_createparent_says_whether_directories_are_made(tree: Tree) -> None:
    for path in ("new/file", "d/new/file", "d/new/x/file"):
        assert "new" in refused(put(tree, path, createparent="false"), 404, "FileNotFoundException")
    refused(put(tree, "d/a/file", createparent="false"), 403, "ParentNotDirectoryException")
    assert put(tree, "d/file", createparent="false").status_code == 201
    assert put(tree, "file", createparent="false").status_code == 201
    assert put(tree, "d/new/file", createparent="True").status_code == 201
    assert put(tree, "d/other/file").status_code == 201


@pytest.mark.parametrize("content", [b"v2", LARGE], ids=len)
@pytest.mark.parametrize("again", [False, True])
def test_a_body_does_not_bring_back_a_directory_that_was_deleted_meanwhile(
    tree: Tree, content: bytes, again: bool
) -> None:
    tree.mkdirs("out/_temporary/0")
    late = [
        tree.ask("PUT", f"out/_temporary/0/{path}", "CREATE", createparent=parents).headers["location"]
        for path, parents in (("attempt/part", "true"), ("part", "false"), ("a/b/c/part", "true"))
    ]
    other = tree.ask("PUT", "out/part", "CREATE").headers["location"]
    assert tree.delete("out/_temporary", recursive=True).json() == {"boolean": True}
    if again:
        tree.mkdirs("out/_temporary/0")
    for location in late:
        for _ in range(2):
            assert "_temporary" in refused(tree.send(location, content), 404, "FileNotFoundException")
    assert tree.send(other, content).status_code == 201
    assert tree.names("out") == (["_temporary", "part"] if again else ["part"])
    assert not again or tree.names("out/_temporary/0") == []


def test_a_body_makes_the_directories_that_were_missing_when_it_began(tree: Tree) -> None:
    first, second = (tree.ask("PUT", f"out/x/{name}", "CREATE").headers["location"] for name in ("a", "b"))
    assert tree.send(first, b"v1").status_code == 201
    assert tree.send(second, b"v1").status_code == 201
    assert tree.names("out/x") == ["a", "b"]


def test_a_rename_onto_itself(tree: Tree) -> None:
    for path in ("d/a", "d"):
        for options in ("NONE", "OVERWRITE"):
            refused(tree.rename(path, path, options), 403, "FileAlreadyExistsException")
    assert tree.rename("d/a", "d/a", None).json() == {"boolean": True}
    assert tree.rename("d/a", "d", None).json() == {"boolean": True}
    assert tree.rename("d", "d", None).json() == {"boolean": False}
    assert tree.rename("d", "", None).json() == {"boolean": True}
    assert tree.rename("d/none", "d/none", None).json() == {"boolean": False}
    refused(tree.rename("d/none", "d/none", "NONE"), 404, "FileNotFoundException")
    assert tree.names("d") == ["a", "b"]


@pytest.mark.parametrize("options", ["SOMETHING", "NONE,SOMETHING", "OVERWRITE2", "NONEOVERWRITE"])
def test_a_rename_with_options_that_are_none(tree: Tree, options: str) -> None:
    assert "renameoptions" in refused(tree.rename("d/a", "d/b", options), 400, "IllegalArgumentException")
    assert tree.names("d") == ["a", "b"]


def test_options_of_a_rename(tree: Tree) -> None:
    assert tree.rename("d/a", "d/b", "").json() == {"boolean": False}
    refused(tree.rename("d/a", "d/b", "TO_TRASH"), 403, "FileAlreadyExistsException")
    assert tree.rename("d/a", "d/b", "none,overwrite").status_code == 200
    assert tree.rename("d/b", "d/c", "TO_TRASH").status_code == 200
    assert tree.names("d") == ["c"]


@pytest.mark.parametrize("query", [{}, {"destination": ""}, {"destination": "jobs/x"}, {"destination": "d/c"}])
@pytest.mark.parametrize("options", [{}, {"renameoptions": "NONE"}])
def test_a_rename_without_a_destination(tree: Tree, query: Any, options: Any) -> None:
    answer = tree.ask("PUT", "d/a", "RENAME", **query, **options)
    assert "destination" in refused(answer, 400, "IllegalArgumentException")


WRONG = [
    *(
        ("PUT", "CREATE", name, value)
        for name in ("overwrite", "createparent", "noredirect")
        for value in ("maybe", "")
    ),
    *(("DELETE", "DELETE", "recursive", value) for value in ("yes", "1", "", "truefalse")),
    *(
        ("GET", op, name, value)
        for op in ("OPEN", "GETFILEBLOCKLOCATIONS")
        for name in ("offset", "length")
        for value in ("-1", "x", "", "1.5", "9" * 19, "٣")
    ),
    ("PUT", "CREATE", "createflag", "CREATE,OVERWRITTEN"),
    ("GET", "OPEN", "noredirect", "no"),
]


@pytest.mark.parametrize(("method", "op", "name", "value"), WRONG)
def test_a_value_that_is_none_is_refused_by_name(tree: Tree, method: str, op: str, name: str, value: str) -> None:
    query: Any = {name: value}
    answer = tree.ask(method, "d/a" if method == "GET" else "d/new", op, **query)
    assert name in refused(answer, 400, "IllegalArgumentException")
    assert tree.names("d") == ["a", "b"]


@pytest.mark.parametrize(
    ("method", "op", "twice"),
    [
        ("GET", "OPEN", "offset=0&offset=1"),
        ("PUT", "CREATE", "overwrite=true&overwrite=false"),
        ("PUT", "MKDIRS", "op=DELETE"),
        ("DELETE", "DELETE", "recursive=false&recursive=true"),
        ("PUT", "RENAME", "destination=/jobs/a&destination=/jobs/b"),
    ],
)
def test_a_parameter_that_appears_twice(tree: Tree, method: str, op: str, twice: str) -> None:
    url = f"/webhdfs/v1/jobs/{tree.job}/d{'/a' if op == 'OPEN' else ''}?op={op}&{twice}"
    refused(tree.http.request(method, url, headers=tree.told()), 400, "IllegalArgumentException")
    assert tree.names("d") == ["a", "b"]


def test_what_hadoops_client_says_besides_means_nothing(tree: Tree) -> None:
    more: Any = {"user.name": "root", "permission": "755", "unmaskedpermission": "777", "replication": "3"}
    more |= {"blocksize": "134217728", "buffersize": "4096", "namenoderpcaddress": "milepost"}
    assert put(tree, "d/new", overwrite="TRUE", **more).status_code == 201
    assert tree.ask("GET", "d/new", "OPEN", offset="0", length="null", **more).status_code == 307


def test_the_root_without_a_slash(tree: Tree) -> None:
    """So fsspec asks for it."""
    for path in ("/webhdfs/v1", "/webhdfs/v1/"):
        listed = tree.http.get(path, params={"op": "LISTSTATUS"}).json()["FileStatuses"]["FileStatus"]
        assert [each["pathSuffix"] for each in listed] == ["jobs"]
        assert tree.http.put(path, params={"op": "MKDIRS"}).json() == {"boolean": True}
        refused(tree.http.delete(path, params={"op": "DELETE"}), 403, "AccessControlException")
    for path in ("/webhdfs", "/webhdfs/", "/webhdfs/v2"):
        refused(tree.http.get(path, params={"op": "LISTSTATUS"}), 404, "FileNotFoundException")


def test_no_answer_but_bytes_has_a_content_type(tree: Tree) -> None:
    """Spark's client has no class to read one with, and says that in place of what was answered."""
    asked = [
        *(("GET", op) for op in ("GETFILESTATUS", "LISTSTATUS", "LISTSTATUS_BATCH", "GETFILEBLOCKLOCATIONS", "OPEN")),
        *(("GET", op) for op in ("GETHOMEDIRECTORY", "GETSERVERDEFAULTS", "GETDELEGATIONTOKEN", "GETACLSTATUS", "")),
        *(("PUT", op) for op in ("CREATE", "MKDIRS", "RENAME", "SETTIMES")),
        *((method, "OPEN") for method in ("POST", "PATCH", "OPTIONS", "HEAD", "TRACE")),
        ("DELETE", "DELETE"),
    ]
    for path in ("d", "d/a", "none", "%ff", "", "../../x"):
        for method, op in asked:
            answer = tree.ask(method, path, op)
            assert "content-type" not in answer.headers, (method, path, op)
            assert answer.status_code < 500, (method, path, op)
