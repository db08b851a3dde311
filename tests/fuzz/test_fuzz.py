"""A cut of `make fuzz`, the same each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.run import KINDS, run
from tests.fuzz.verdicts import Page, Wrong

CASES = 300
SECONDS = 24.0


def test_whatever_is_asked_is_answered_as_documented(tmp_path: Path) -> None:
    sent = run(tmp_path, CASES, seed=1, seconds=SECONDS)
    assert sent.keys() == KINDS.keys()
    assert all(sent.values()), sent


PAGE = Page(
    {
        "info": {"description": "404 `no-route` for another path"},
        "components": {"schemas": {"Problem": {"required": ["type", "status", "detail"]}}},
        "paths": {},
    }
)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b"Internal Server Error"),
        (404, b'{"type": "urn:milepost:no-route", "status": 404}'),
        (404, b'{"type": "urn:milepost:no-route", "status": 400, "detail": ""}'),
        (404, b'{"type": "urn:milepost:unheard-of", "status": 404, "detail": ""}'),
        (500, b'{"type": "urn:milepost:internal", "status": 500, "detail": ""}'),
    ],
)
def test_what_is_not_documented_is_found(status: int, body: bytes) -> None:
    with pytest.raises(Wrong):
        PAGE.judge_problem(status, body, {**PAGE.beside, "internal": 500})
