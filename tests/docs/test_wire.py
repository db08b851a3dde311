"""The wire's page names exactly the codes, headers and limits that service and SDK read from `milepost.wire`."""

from __future__ import annotations

import re
from pathlib import Path

from milepost import wire
from milepost.wire import PROBLEMS, Code, Header

PAGE = (Path(__file__).parents[2] / "docs" / "wire.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    """The cells of the section's table, without its head."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_problems_are_these_with_their_status() -> None:
    known = {code.value for code in Code}
    listed = [(token, int(status)) for status, cell in rows("Problems") for token in re.findall(r"`([a-z-]+)`", cell)]
    assert sorted(listed) == sorted((code.value, kind.status) for code, kind in PROBLEMS.items())
    assert {token for token, _ in listed} == known


def test_no_code_stands_anywhere_with_another_status() -> None:
    listed = re.findall(r"\b(\d{3}) `([a-z-]+)`", PAGE)
    assert len(listed) > 30
    assert {(int(status), code) for status, code in listed} <= {(PROBLEMS[code].status, code.value) for code in Code}


def test_the_headers_are_these() -> None:
    known = {value for name, value in vars(Header).items() if name.isupper()}
    listed = [cell.strip("`") for cell, *_ in rows("Headers")]
    assert sorted(listed) == sorted(known - {Header.LABEL_PREFIX} | {Header.LABEL_PREFIX + "<key>"})


def test_the_limits_are_these() -> None:
    text = " ".join(PAGE.split())
    for listed in (
        f"`ttl` is {wire.MIN_TTL_SECONDS} to {wire.MAX_TTL_SECONDS} seconds",
        f"`wait` is 0 to {wire.MAX_WAIT_SECONDS} seconds",
        f"`limit` is 1 to {wire.MAX_PAGE}",
        f"at most {wire.MAX_LABELS}, keys of 1 to 64 characters",
        f"values of at most {wire.MAX_LABEL_VALUE}",
        f"`{wire.UPLOAD_MEDIA_TYPE}`",
        f"`{wire.PROBLEM_MEDIA_TYPE}`",
    ):
        assert listed in text
