"""What a request tells of itself."""

from __future__ import annotations

from milepost_server.model.requests.base import NO_BLOB, Attempt, BlobRef, with_id
from milepost_server.model.requests.handles import Add
from milepost_server.model.requests.trees import PutFile


def test_no_request_shows_the_bytes_of_a_state() -> None:
    add = Add(Attempt("s", "k"), "store", "name", 3, BlobRef("", 5, "abc"), {}, data=b"inner")
    put = PutFile(Attempt("", "k"), "store", "a/b", 3, NO_BLOB, b"inner")
    for request in (add, put):
        assert "inner" not in repr(request)
        assert "store_name='store'" in repr(request)


def test_a_request_with_an_id_differs_in_nothing_else() -> None:
    put = PutFile(Attempt("", None, 2), "store", "a/b", 3, NO_BLOB, b"inner")
    named = with_id(put, "7.1")
    assert named == PutFile(Attempt("", " 7.1", 2), "store", "a/b", 3, NO_BLOB, b"inner")
    assert named.scope == ("store", "", " 7.1")
    assert named.fingerprint() == put.fingerprint()
