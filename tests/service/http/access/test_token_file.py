"""Lines of the token file, and what is wrong with them, without a token in it."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from milepost_server.http.access.rights import EVERYTHING, READING, Patterns, Rights
from milepost_server.http.access.token_file import read_tokens
from milepost_server.http.access.tokens import Tokens

SECRET = "secret-token-0123456789"
HASHED = sha256(SECRET.encode()).hexdigest()


def read(directory: Path, text: str, *, accounts: bool = True) -> Tokens:
    file = directory / "tokens"
    file.write_text(text, encoding="utf-8")
    return read_tokens(file, accounts=accounts)


ROLES = {
    "": EVERYTHING,
    "read-only": READING,
    "admin": EVERYTHING,
    "admin reader=x": EVERYTHING,
    "reader=a,b-*": Rights(reader=Patterns(("a", "b-*"))),
    "writer=flights-*": Rights(writer=Patterns(("flights-*",))),
    "writer=a reader=*": Rights(Patterns(("*",)), Patterns(("a",))),
    "writer=a # a comment": Rights(writer=Patterns(("a",))),
}


FORMS = {"plain": SECRET, "hash": f"sha256:{HASHED}", "HASH": f"SHA256:{HASHED.upper()}"}


@pytest.mark.parametrize("token", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(("roles", "rights"), ROLES.items())
def test_a_line_gives_these_rights(tmp_path: Path, token: str, roles: str, rights: Rights) -> None:
    tokens = read(tmp_path, f"# clients\n\ndriver\t{token}  {roles}\nother other-token-0123456789 read-only\n")
    found = tokens.known(SECRET)
    assert found is not None
    assert (found.name, found.rights) == ("driver", rights)
    assert tokens.names == ["driver", "other"]
    assert tokens.known(f"sha256:{HASHED}") is None
    assert SECRET not in repr(found)
    assert repr(found.digest) not in repr(found)


def test_one_client_may_have_several_tokens(tmp_path: Path) -> None:
    """While one is exchanged for another: sessions belong to the name."""
    tokens = read(tmp_path, f"driver {SECRET} writer=a\ndriver next-token-0123456789 writer=a\n")
    assert tokens.names == ["driver"]
    for token in (SECRET, "next-token-0123456789"):
        found = tokens.known(token)
        assert found is not None
        assert found.name == "driver"


def test_accounts_get_what_their_lines_say_together(tmp_path: Path) -> None:
    text = "serviceaccount:spark/driver writer=a\nserviceaccount:spark/* reader=b\nserviceaccount:ops/x admin\n"
    tokens = read(tmp_path, text)
    assert tokens
    driver, other = tokens.account("spark", "driver"), tokens.account("spark", "other")
    assert driver is not None
    assert (driver.name, driver.rights) == (
        "serviceaccount:spark/driver",
        Rights(Patterns(("b",)), Patterns(("a",))),
    )
    assert other is not None
    assert other.rights == Rights(reader=Patterns(("b",)))
    assert tokens.account("other", "driver") is None
    assert tokens.account("ops", "y") is None


def test_how_an_editor_saves_the_file_changes_nobody_s_rights(tmp_path: Path) -> None:
    """Neither a mark at its beginning, nor line ends of Windows, nor what else Python takes for the end of a line."""
    lines = [
        "serviceaccount:spark/driver writer=flights-eu",
        f"driver {SECRET} writer=a",
        "# once\u2028b b-token-0123456789",
    ]
    tokens = read(tmp_path, "\ufeff" + "\r\n".join(lines))
    assert tokens.names == ["driver", "serviceaccount:spark/driver"]
    found = tokens.known(SECRET)
    assert found is not None
    assert found.rights == Rights(writer=Patterns(("a",)))
    assert read(tmp_path, f"\ufeff# clients\r\ndriver {SECRET}\r\n").names == ["driver"]


WRONG = {
    "a name alone": ("driver", "expected 'name token'"),
    "a short token": ("driver short", "at least 16 characters"),
    "no such role": (f"driver {SECRET} write=a", "place 3 is none"),
    "two tokens": (f"driver {SECRET} {SECRET}", "place 3 is none"),
    "roles without a token": ("driver writer=flights-eu-*", "a role stands where the token should be"),
    "roles without a token, of a reader": ("x reader=flights-eu-* admin", "a role stands where the token should be"),
    "an account in capitals": ("ServiceAccount:a/b writer=flights-eu", "a role stands where the token should be"),
    "read-only and more": (f"driver {SECRET} read-only reader=a", "place 3 is none"),
    "admin of something": (f"driver {SECRET} admin=a", "place 3 is none"),
    "reader of nothing": (f"driver {SECRET} reader=", "no pattern"),
    "reader alone": (f"driver {SECRET} reader", "place 3 is none"),
    "an empty pattern": (f"driver {SECRET} reader=a,,b", "no pattern"),
    "a class": (f"driver {SECRET} reader=[ab]", "no pattern"),
    "a role twice": (f"driver {SECRET} reader=a reader=b", "reader is there twice"),
    "a short hash": ("driver sha256:abcdef", "64 hexadecimal digits"),
    "no hash": ("driver sha256:" + "x" * 64, "64 hexadecimal digits"),
    "a hash of more": (f"driver sha256:{HASHED}0", "64 hexadecimal digits"),
    "a token twice": (f"driver {SECRET} reader=a\nother sha256:{HASHED}", "the token is already in line 1"),
    "an account twice": ("serviceaccount:a/b admin\nserviceaccount:a/b read-only", "the account is already in line 1"),
    "an account without rights": ("serviceaccount:a/b", "expected 'serviceaccount:NAMESPACE/NAME'"),
    "an account of nowhere": ("serviceaccount:b admin", "expected 'serviceaccount:NAMESPACE/NAME'"),
    "accounts of everywhere": ("serviceaccount:*/b admin", "expected 'serviceaccount:NAMESPACE/NAME'"),
    "a part of a name": ("serviceaccount:a/b* admin", "expected 'serviceaccount:NAMESPACE/NAME'"),
    "an account with a token": (f"serviceaccount:a/b {SECRET}", "place 3 is none"),
}


@pytest.mark.parametrize(("text", "said"), WRONG.values(), ids=WRONG)
def test_a_bad_line_is_named_and_its_token_is_not(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ValueError, match="line") as raised:
        read(tmp_path, text)
    error: BaseException | None = raised.value
    assert said in str(error)
    assert f"tokens, line {len(text.splitlines())}: " in str(error)
    while error is not None:
        assert SECRET not in str(error)
        assert HASHED not in str(error)
        error = error.__cause__


@pytest.mark.parametrize("text", ["", "\n# nothing\n"])
def test_an_empty_file_is_wrong(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match="holds no token"):
        read(tmp_path, text)


def test_accounts_only_where_they_are_asked_about(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs --service-accounts"):
        read(tmp_path, "serviceaccount:a/b admin", accounts=False)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_bytes(b"driver \xff\xfe0123456789abcdef")
    with pytest.raises(ValueError, match="tokens is no text in UTF-8"):
        read_tokens(tmp_path / "tokens")
