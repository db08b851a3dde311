"""The labels of a handle: the headers of a request that carry them, and the check that the service stored them.

Proxies drop headers whose names contain ``_`` or ``.``, which keys of labels may contain. So one header carries all
labels in its value. Labels whose keys pass through proxies are also sent as separate headers, for services of older
releases, which do not read that one header.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from milepost.errors import InvalidRequest, LabelsLost
from milepost.types import Handle
from milepost.wire import (
    LABEL_KEY,
    LABEL_VALUE,
    MAX_LABEL_VALUE,
    MAX_LABELS,
    MAX_LABELS_LENGTH,
    Code,
    Header,
)

_PASSES: Final = re.compile(r"[a-z0-9-]+\Z")


def label_headers(labels: Mapping[str, str]) -> dict[str, str]:
    """Make the headers that carry ``labels``; an empty dict if there are no labels. Raises `InvalidRequest` for labels
    that the service would refuse.
    """
    if not labels:
        return {}
    if len(labels) > MAX_LABELS:
        raise InvalidRequest(Code.INVALID_REQUEST, f"{len(labels)} labels, but at most {MAX_LABELS} are allowed")
    for key, value in labels.items():
        if not LABEL_KEY.match(key):
            raise InvalidRequest(Code.INVALID_REQUEST, f"not a valid key for a label: {key!r}")
        if len(value) > MAX_LABEL_VALUE or not LABEL_VALUE.match(value):
            raise InvalidRequest(
                Code.INVALID_REQUEST,
                f"the value of label {key!r} is not printable ASCII of at most {MAX_LABEL_VALUE} characters, "
                "without spaces around it",
            )
    whole = json.dumps(labels, separators=(",", ":"))
    plain = {Header.LABEL_PREFIX + key: value for key, value in labels.items() if _PASSES.match(key)}
    if len(whole) > MAX_LABELS_LENGTH:
        if len(plain) == len(labels):
            return plain  # the labels are too long for one header, but each has its own as well
        raise InvalidRequest(
            Code.INVALID_REQUEST,
            f"the labels have {len(whole)} characters as JSON, but at most {MAX_LABELS_LENGTH} are allowed",
        )
    return {Header.LABELS: whole, **plain}


def check_labels(stored: Handle, sent: Mapping[str, str], request_id: str | None = None) -> None:
    """Raise `LabelsLost` if the labels of the ``stored`` handle differ from those that were ``sent``.

    If none were sent, any labels are right, because a handle that is replaced keeps its labels. ``request_id`` is that
    of the request, for the error.
    """
    if not sent or stored.labels == sent:
        return
    missing = ", ".join(sorted(key for key, value in sent.items() if stored.labels.get(key) != value))
    lost = LabelsLost(
        f"{stored.name} is stored, with version {stored.version}, but not with its labels ({missing}): a proxy dropped "
        f"the header {Header.LABELS}, or the service is older than this SDK and does not read it",
        stored,
    )
    lost.request_id = request_id
    raise lost
