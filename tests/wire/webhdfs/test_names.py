"""Names as strangers choose them, and headers whose name says an epoch in a way that no driver says it."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from milepost.wire import job_epoch_header
from tests.wire.support.api import Api
from tests.wire.webhdfs.hadoop import Tree, refused

FENCED = "AccessControlException"


@pytest.fixture
def tree(api: Api) -> Tree:
    """The tree of a job that this test leads."""
    return Tree(api.http, api.store, api.campaign().json()["epoch"])


@pytest.mark.parametrize("name", ["größe=1", "日本", "😀", "e\u0301", "a b+c%d?e#f", '"', "a:b", ".snapshots"])
@pytest.mark.parametrize("content", [b"v1", b"x" * 100_000], ids=len)
def test_a_file_of_any_name_is_put_and_said_to_be_there(tree: Tree, name: str, content: bytes) -> None:
    created = tree.create(quote(name), content)
    assert created.status_code == 201, created.text
    assert created.headers["location"] == f"webhdfs://milepost/jobs/{tree.job}/{quote(name)}"
    assert tree.read(quote(name)).content == content
    assert tree.names() == [name]
    assert tree.rename(quote(name), f"{name}2").status_code == 200
    assert tree.names() == [f"{name}2"]


def test_bytes_that_are_no_utf_8_are_no_name(tree: Tree) -> None:
    """Two such names would be the same file: each wrong byte would become the same character."""
    refused(tree.ask("PUT", "%ff", "MKDIRS"), 400, "IllegalArgumentException")
    refused(tree.create("a%fe", b"v1"), 400, "IllegalArgumentException")
    tree.create("file", b"v1")
    url = f"/webhdfs/v1/jobs/{tree.job}/file?op=RENAME&destination=/jobs/{tree.job}/%fe"
    refused(tree.http.put(url, headers=tree.told()), 400, "IllegalArgumentException")
    assert tree.names() == ["file"]


def test_a_number_that_no_epoch_can_have_is_not_taken_for_the_one_it_begins_with(tree: Tree) -> None:
    assert tree.epoch == 1
    for said in ("0" * 17 + "10", "1" + "0" * 18, "9" * 40):
        told = {f"X-Milepost-{tree.job}-{said}": "x"}
        refused(tree.under(None).ask("PUT", "d", "MKDIRS", headers=told), 403, "AccessControlException")
    assert tree.names() == []


@pytest.mark.parametrize("job", ["my_job", "my.job-2", "My_Job..x", "_", "a-_d"])
def test_a_job_whose_header_proxies_would_drop_writes_by_another(api: Api, job: str) -> None:
    """nginx and Envoy let only letters, digits and ``-`` pass in the name of a header."""
    job = f"{job}-{api.store}"
    made = Api(api.http, job, api.session)
    tree = Tree(api.http, job, made.campaign().json()["epoch"])
    passed = {job_epoch_header(job, 1): "x"}
    assert tree.under(None).ask("PUT", "d", "MKDIRS", headers=passed).status_code == 200
    assert tree.ask("PUT", "e", "MKDIRS").status_code == 200, "by the plain form as well"
    refused(tree.under(None).ask("PUT", "f", "MKDIRS", headers={job_epoch_header(job, 2): "x"}), 403, FENCED)
    refused(tree.under(None).ask("PUT", "f", "MKDIRS", headers={job_epoch_header(f"{job}.", 1): "x"}), 403, FENCED)
    refused(tree.ask("PUT", "f", "MKDIRS", headers=passed), 403, FENCED)  # two of them, though both say the same
    assert tree.names() == ["d", "e"]


@pytest.mark.parametrize("op", ["CREATE", "MKDIRS", "RENAME", "DELETE"])
def test_a_refusal_names_the_header_that_did_not_come(tree: Tree, op: str) -> None:
    tree.create("file", b"v1")
    method, target = "DELETE" if op == "DELETE" else "PUT", f"/jobs/{tree.job}/other"
    path = "directory" if op == "MKDIRS" else "file"  # to make sure of one that is there takes no epoch
    said = refused(tree.under(None).ask(method, path, op, destination=target), 403, FENCED)
    assert f"the header {job_epoch_header(tree.job, 1)}, or that of another epoch, did not come" in said
    assert "did not come" not in refused(tree.under(99).ask(method, path, op, destination=target), 403, FENCED)


def test_the_longest_path_is_counted_from_the_root_of_the_tree(tree: Tree) -> None:
    deepest, longest = "/".join("x" * 32), "/".join(["y" * 255] * 4)
    for path in (deepest, longest + "y"):
        assert tree.create(path, b"v1").status_code == 201
        assert tree.read(path).content == b"v1"
    for path in (f"{deepest}/x", f"{longest}yy", "a//b", "/b", "a/%2e%2e/b"):
        refused(tree.mkdirs(path), 400, "IllegalArgumentException")


def test_a_rename_takes_no_file_to_where_nobody_could_ask_for_it(tree: Tree) -> None:
    below = "/".join("x" * 31)
    assert tree.create(f"d/{below}", b"v1").status_code == 201
    tree.mkdirs("e/f")
    for options, target in (("NONE", "e/d"), ("OVERWRITE", "e/f"), (None, "e")):
        refused(tree.rename("d", target, options), 400, "IllegalArgumentException")
    assert tree.read(f"d/{below}").content == b"v1"
    assert tree.rename("d", "g").status_code == 200
    assert tree.read(f"g/{below}").content == b"v1"
