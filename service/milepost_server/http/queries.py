"""Reads and checks the query parameters of a request, and the path of a file in its URL."""

from __future__ import annotations

import base64
import binascii

from milepost.operations.operation import RestOperation
from milepost.wire import MAX_PAGE, Code
from milepost_server.basics.problems import problem
from milepost_server.http.requests import HttpRequest
from milepost_server.model.paths import checked_path

_NO_UTF_8 = "\ufffd"
"""The character that the decoder puts in place of bytes that are not UTF-8. A path with it is refused, since different
names would become equal.
"""


def only_known(request: HttpRequest, operation: RestOperation) -> None:
    """Raise ``invalid-request`` for a query parameter that the operation does not know, or that appears twice."""
    names = [name for name, _ in request.query_params.multi_items()]
    if len(set(names)) < len(names):
        raise problem(Code.INVALID_REQUEST, "a query parameter appears twice")
    unknown = sorted(set(request.query_params) - set(operation.query))
    if unknown:
        raise problem(Code.INVALID_REQUEST, f"the query parameter {unknown[0][:60]!r} is unknown to this call")


def flag(request: HttpRequest, name: str) -> bool:
    """Return the value of a query parameter that is ``true`` or ``false``; an absent one means false."""
    value = request.query_params.get(name, "false")
    if value not in ("true", "false"):
        raise problem(Code.INVALID_REQUEST, f"{name} takes true or false, not {value[:60]!r}")
    return value == "true"


def page_of(request: HttpRequest, operation: RestOperation) -> tuple[str, int]:
    """Return the name after which the requested page of a list begins, and how many entries it may have."""
    only_known(request, operation)
    query = request.query_params
    return from_token(query.get("token")), limit_of(query.get("limit"))


def limit_of(value: str | None) -> int:
    """Return how many entries a page may have, by the value of the parameter ``limit``; `MAX_PAGE` if it is absent."""
    if value is None:
        return MAX_PAGE
    if not value.isascii() or not value.isdigit() or len(value) > 4 or not 1 <= int(value) <= MAX_PAGE:
        raise problem(Code.INVALID_REQUEST, f"limit takes a whole number from 1 to {MAX_PAGE}")
    return int(value)


def to_token(name: str | None) -> str | None:
    """Return the opaque token of the page that begins after ``name``; None if ``name`` is None, because no page
    follows.
    """
    return None if name is None else base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")


def from_token(token: str | None) -> str:
    """Return the name after which the page with this token begins; empty if ``token`` is None, for the first page."""
    if token is None:
        return ""
    try:
        name = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    except (binascii.Error, ValueError) as error:
        raise problem(Code.INVALID_REQUEST, "the token of the page is not one that this service returned") from error
    if to_token(name) != token:
        raise problem(Code.INVALID_REQUEST, "the token of the page is not one that this service returned")
    return name


def named_path(path: str) -> str:
    """Return a path in a tree without a slash at its end; empty for the root. Raises an ``invalid-name`` problem if no
    file can have this path.
    """
    try:
        checked = checked_path(path)
    except ValueError as error:
        raise problem(Code.INVALID_NAME, str(error)) from error
    if path.startswith("/"):
        raise problem(Code.INVALID_NAME, f"{path[:80]!r} has an empty part")
    if _NO_UTF_8 in path:
        raise problem(Code.INVALID_NAME, f"{path[:80]!r} is no UTF-8")
    return checked
