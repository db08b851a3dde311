"""Query parameters, read and checked; among them the pages of listings."""

from __future__ import annotations

import base64
import binascii

from milepost.wire import MAX_PAGE, Code
from service.basics.problems import problem
from service.http.openapi.documents import PAGED
from service.http.requests import HttpRequest


def only_known(request: HttpRequest, known: set[str]) -> None:
    """Raise ``invalid-request`` for a query parameter that means nothing here, or that stands twice."""
    names = [name for name, _ in request.query_params.multi_items()]
    if len(set(names)) < len(names):
        raise problem(Code.INVALID_REQUEST, "a query parameter stands twice")
    unknown = sorted(set(request.query_params) - known)
    if unknown:
        raise problem(Code.INVALID_REQUEST, f"the query parameter {unknown[0][:60]!r} is not known here")


def flag(request: HttpRequest, name: str) -> bool:
    """The value of a parameter that is ``true`` or ``false``; absent means false."""
    value = request.query_params.get(name, "false")
    if value not in ("true", "false"):
        raise problem(Code.INVALID_REQUEST, f"{name} takes true or false, not {value[:60]!r}")
    return value == "true"


def page_of(request: HttpRequest) -> tuple[str, int]:
    """The name behind which a page begins, and how much it may hold."""
    only_known(request, set(PAGED))
    query = request.query_params
    return from_token(query.get("token")), limit_of(query.get("limit"))


def limit_of(value: str | None) -> int:
    """The size of a page."""
    if value is None:
        return MAX_PAGE
    if not value.isascii() or not value.isdigit() or len(value) > 4 or not 1 <= int(value) <= MAX_PAGE:
        raise problem(Code.INVALID_REQUEST, f"limit takes a whole number from 1 to {MAX_PAGE}")
    return int(value)


def to_token(name: str | None) -> str | None:
    """The opaque token of a page behind ``name``."""
    return None if name is None else base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")


def from_token(token: str | None) -> str:
    """The name behind which a page begins."""
    if token is None:
        return ""
    try:
        name = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode("ascii")
    except (binascii.Error, ValueError) as error:
        raise problem(Code.INVALID_REQUEST, "the token is not one that was given out") from error
    if to_token(name) != token:
        raise problem(Code.INVALID_REQUEST, "the token is not one that was given out")
    return name
