"""Reads and checks the headers of requests, including those with the labels of a handle."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from milepost.wire import (
    IDEMPOTENCY_KEY,
    LABEL_KEY,
    LABEL_VALUE,
    MAX_ACT_LENGTH,
    MAX_LABEL_VALUE,
    MAX_LABELS,
    MAX_LABELS_LENGTH,
    NAME,
    NAME_RULE,
    Code,
    Header,
    parse_digest_header,
    unquote_version,
)
from milepost_server.basics.problems import problem
from milepost_server.http.requests import HttpRequest
from milepost_server.model.history import STATED_KINDS, STATED_MEMBERS
from milepost_server.model.requests.base import Attempt
from milepost_server.model.requests.handles import StatedAct
from milepost_server.replica.submitter import Caller

_MOST_DIGITS = 18


def checked_name(name: str, what: str = "name") -> str:
    """Return the name of a store, handle or session unchanged if it is allowed; else raise ``invalid-name``. ``what``
    says in the error what the name is for.
    """
    if not NAME.match(name):
        raise problem(
            Code.INVALID_NAME,
            f"the {what} {name[:60]!r} is not allowed: {NAME_RULE}",
        )
    return name


def one(request: HttpRequest, header: str) -> str | None:
    """Return the value of a header that may appear at most once; None if it is absent. Raises ``invalid-request`` if it
    is repeated.
    """
    values = request.fields.all(header)
    if len(values) > 1:
        raise problem(Code.INVALID_REQUEST, f"the header {header} appears {len(values)} times, not once")
    return values[0] if values else None


def caller(request: HttpRequest, session: str | None = None) -> Caller:
    """Return the caller as the headers describe it: session, idempotency key, attempt and epoch. If the path of the
    call names the session, pass it as ``session``; it then replaces the session in the header.
    """
    given = session if session is not None else one(request, Header.SESSION)
    if given is None:
        raise problem(Code.SESSION_REQUIRED, f"the header {Header.SESSION} is missing")
    checked_name(given, "session id")
    return Caller(_attempt(request, given, request.bound_to), epoch_of(request))


def caller_without_session(request: HttpRequest) -> Caller:
    """Return the caller of a change that needs no session, as the headers describe it: idempotency key, attempt and
    epoch. Such is a write of files, which the epoch permits.
    """
    return Caller(_attempt(request, "", None), epoch_of(request))


def _attempt(request: HttpRequest, session: str, client: str | None) -> Attempt:
    key = one(request, Header.IDEMPOTENCY_KEY)
    if key is not None and not IDEMPOTENCY_KEY.match(key):
        raise problem(Code.INVALID_REQUEST, f"{Header.IDEMPOTENCY_KEY} takes 1 to 64 visible ASCII characters")
    attempt = _number(request, Header.ATTEMPT)
    if attempt is not None and key is None:
        raise problem(Code.INVALID_REQUEST, f"{Header.ATTEMPT} needs {Header.IDEMPOTENCY_KEY} as well")
    return Attempt(session, key, attempt or 1, client, request.owner)


def creates_only(request: HttpRequest) -> bool:
    """Return whether the write may replace nothing: the header If-None-Match is ``*``."""
    value = one(request, Header.IF_NONE_MATCH)
    if value not in (None, "*"):
        raise problem(Code.INVALID_REQUEST, f"{Header.IF_NONE_MATCH} takes '*' alone")
    return value is not None


def check_without(request: HttpRequest, header: str, why: str) -> None:
    """Raise ``invalid-request`` if the request has a header that the call does not support and that would change its
    meaning. ``why`` tells the client the reason.

    Ignoring such a header could change data that the client meant to protect by a condition.
    """
    if header in request.fields:
        raise problem(Code.INVALID_REQUEST, f"this call takes no {header}: {why}")


def epoch_of(request: HttpRequest) -> int | None:
    """Return the epoch in the request's header; None if the header is absent."""
    return _number(request, Header.EPOCH)


def if_match(request: HttpRequest) -> str | None:
    """Return the version that If-Match names, without its quotes; None if the header is absent."""
    value = one(request, Header.IF_MATCH)
    if value is None:
        return None
    version = unquote_version(value)
    if version is None:
        raise problem(Code.INVALID_REQUEST, f"{Header.IF_MATCH} takes one quoted version: no weak tag, no list, no '*'")
    return version


def required_if_match(request: HttpRequest) -> str:
    """Return the version in If-Match, on which a replace is conditional. Raises ``precondition-required`` if it is
    absent.
    """
    version = if_match(request)
    if version is None:
        raise problem(Code.PRECONDITION_REQUIRED, f"the header {Header.IF_MATCH} is missing")
    return version


def content_digest(request: HttpRequest) -> str | None:
    """Return the announced SHA-256 of the body in lower-case hexadecimal digits; None if it is not announced."""
    value = one(request, Header.CONTENT_DIGEST)
    if value is None:
        return None
    digest = parse_digest_header(value)
    if digest is None:
        raise problem(Code.INVALID_REQUEST, f"{Header.CONTENT_DIGEST} takes sha-256=:BASE64:")
    return digest


def content_length(request: HttpRequest) -> int | None:
    """Return the announced length of the body in bytes; None if it is not announced."""
    return _number(request, "Content-Length", least=0)


def accepts(request: HttpRequest, media_type: str) -> None:
    """Raise ``not-acceptable`` unless the header Accept allows ``media_type``, by its name or by a range such as
    ``text/*``.
    """
    accept = request.fields.get("accept")
    if not accept:
        return
    wide = media_type.partition("/")[0] + "/*"
    for item in accept.split(","):
        media, *parameters = (part.strip().lower() for part in item.split(";"))
        refused = any(parameter.replace(" ", "") in ("q=0", "q=0.0") for parameter in parameters)
        if not refused and media in (media_type, wide, "*/*", "*"):
            return
    raise problem(Code.NOT_ACCEPTABLE, f"this answer has the media type {media_type}")


def _number(request: HttpRequest, header: str, least: int = 1) -> int | None:
    value = one(request, header)
    if value is None:
        return None
    if not value.isascii() or not value.isdigit() or len(value) > _MOST_DIGITS or int(value) < least:
        raise problem(Code.INVALID_REQUEST, f"{header} takes a whole number, {least} or more")
    return int(value)


def stated_act(request: HttpRequest) -> StatedAct | None:
    """Return what the client says that its change does to the job; None if it says nothing.

    An act of a kind that this release does not know is None too, and unknown members are left out: a change counts,
    whether or not the history can say what it was.
    """
    value = one(request, Header.ACT)
    if value is None:
        return None
    if epoch_of(request) is None:
        raise problem(Code.INVALID_REQUEST, f"{Header.ACT} needs {Header.EPOCH} as well")
    if len(value) > MAX_ACT_LENGTH:
        raise problem(Code.INVALID_REQUEST, f"{Header.ACT} has more than {MAX_ACT_LENGTH} characters")
    try:
        stated = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise problem(Code.INVALID_REQUEST, f"{Header.ACT} is no JSON: {error}") from error
    if not isinstance(stated, dict) or not isinstance(stated.get("kind"), str):
        raise problem(Code.INVALID_REQUEST, f"{Header.ACT} takes a JSON object with a kind")
    about = {name: number for name, number in stated.items() if name in STATED_MEMBERS}
    if not all(type(number) is int and 0 <= number < 10**_MOST_DIGITS for number in about.values()):
        raise problem(Code.INVALID_REQUEST, f"{Header.ACT} takes whole numbers, 0 or more")
    return StatedAct(stated["kind"], about) if stated["kind"] in STATED_KINDS else None


def labels(request: HttpRequest) -> dict[str, str] | None:
    """Return the labels of a handle, None if the request has none.

    Labels come in one header with all of them, or in one header for each. If a request has both, the header with all
    labels counts. Each single header must agree with it, but some may be missing, since proxies drop headers with
    certain names.
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
        # decode to pairs, since a dict would hide a key that appears twice, which must be refused
        members = json.loads(value, object_pairs_hook=tuple)
    except (ValueError, RecursionError) as error:
        raise problem(Code.INVALID_REQUEST, f"{Header.LABELS} is no JSON: {error}") from error
    if not isinstance(members, tuple):
        raise problem(Code.INVALID_REQUEST, f"{Header.LABELS} takes a JSON object of strings")
    return checked_labels(members)


def checked_labels(members: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """Return the labels that JSON contains as pairs of a key and a value. Raises ``invalid-request`` for a key or value
    that is not allowed, a key that appears twice, and too many labels.
    """
    pairs = list(members)
    for key, text in pairs:
        if not isinstance(text, str) or not LABEL_VALUE.match(text):
            raise problem(
                Code.INVALID_REQUEST, f"the label {key[:60]!r} is not printable ASCII without spaces around it"
            )
    return _checked(pairs)


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
