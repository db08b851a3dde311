"""Read and check the labels of a handle, which a request has in one header, or in a header for each of them."""

from __future__ import annotations

import json
from collections.abc import Iterable

from milepost.wire import LABEL_KEY, LABEL_VALUE, MAX_LABEL_VALUE, MAX_LABELS, MAX_LABELS_LENGTH, Code, Header
from milepost_server.basics.problems import problem
from milepost_server.http.headers import one
from milepost_server.http.requests import HttpRequest


def labels(request: HttpRequest) -> dict[str, str] | None:
    """Return the labels of a handle, None if the request has none.

    The header with all of them counts. Those with a header each may be fewer beside it, since proxies drop some by
    their names, but may say nothing else.
    """
    plain = _each_in_a_header(request)
    value = one(request, Header.LABELS)
    if value is None:
        return plain or None
    found = _all_in_one(value)
    for key in plain:
        if found.get(key) != plain[key]:
            raise problem(
                Code.INVALID_REQUEST, f"{Header.LABELS} and {Header.LABEL_PREFIX}{key} say different things of {key!r}"
            )
    return found


def _each_in_a_header(request: HttpRequest) -> dict[str, str]:
    prefix = Header.LABEL_PREFIX.lower()
    headers = request.fields.items()
    return _checked((name.removeprefix(prefix), value) for name, value in headers if name.startswith(prefix))


def _all_in_one(value: str) -> dict[str, str]:
    if len(value) > MAX_LABELS_LENGTH:
        raise problem(
            Code.INVALID_REQUEST,
            f"{Header.LABELS} has {len(value)} characters; at most {MAX_LABELS_LENGTH} are allowed",
        )
    try:
        members = json.loads(value, object_pairs_hook=tuple)  # a dict would hide that a key appears twice
    except (ValueError, RecursionError) as error:
        raise problem(Code.INVALID_REQUEST, f"{Header.LABELS} is no JSON: {error}") from error
    if not isinstance(members, tuple):
        raise problem(Code.INVALID_REQUEST, f"{Header.LABELS} takes a JSON object of strings")
    for key, text in members:
        if not isinstance(text, str) or not LABEL_VALUE.match(text):
            raise problem(
                Code.INVALID_REQUEST, f"the label {key[:60]!r} is not printable ASCII without spaces around it"
            )
    return _checked(members)


def _checked(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in pairs:
        if not LABEL_KEY.match(key) or key in found:
            raise problem(Code.INVALID_REQUEST, f"the label key {key[:60]!r} is not allowed or appears twice")
        if len(value) > MAX_LABEL_VALUE:
            raise problem(Code.INVALID_REQUEST, f"the label {key!r} has more than {MAX_LABEL_VALUE} characters")
        found[key] = value
    if len(found) > MAX_LABELS:
        raise problem(Code.INVALID_REQUEST, f"there are {len(found)} labels; at most {MAX_LABELS} are allowed")
    return found
