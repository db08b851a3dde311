"""The wire's page names exactly the codes, headers and limits that service and SDK read from `milepost.wire`."""

from __future__ import annotations

import re
from pathlib import Path

from milepost import wire
from milepost.operations import OPERATIONS
from milepost.wire import PROBLEMS, Code, Header
from milepost_server.http.webhdfs.errors import EXCEPTIONS
from milepost_server.http.webhdfs.reads import READS
from milepost_server.http.webhdfs.writes import DELETES, WRITES
from milepost_server.model.paths import MOST_BYTES, MOST_PARTS
from milepost_server.rules.trees.handlers import MOST_RENAMED

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


def tables(title: str) -> list[list[list[str]]]:
    """The cells of each table of the section, without its head."""
    found = re.findall(r"(?:^\|.*\n)+", section(title), re.MULTILINE)
    return [[[cell.strip() for cell in line.strip("|").split("|")] for line in each.splitlines()[2:]] for each in found]


def calls() -> list[tuple[str, str, str]]:
    """Each call of the page's tables: method and path, and the cells with what it is answered and refused."""
    found = []
    for heading, base in re.findall(r"^## ([^\n`]*`(/v1/[^`\n]*)`)$", PAGE, re.MULTILINE):
        for cell, done, refused in (row for table in tables(heading) for row in table):
            method, path = re.findall(r"^`(GET|HEAD|POST|PUT|DELETE)(?: ([^`?]*))?[^`]*`", cell)[0]
            found.append((f"{method} {path if path.startswith('/v1') else base + path}", done, refused))
    return found


def test_each_row_has_the_statuses_and_codes_of_its_operation() -> None:
    assert len(calls()) > 30
    for call, done, refused in calls():
        operation = OPERATIONS[call]
        statuses = {int(each) for each in re.findall(r"(?:^|; |, or )(\d{3})\b", done)}
        assert statuses <= set(operation.success), call
        codes = {Code(each) for each in re.findall(r"`([a-z]+(?:-[a-z]+)*)`", refused) if each in set(Code)}
        assert codes <= operation.codes, call


def test_every_operation_is_on_the_page() -> None:
    shown = {call for call, _, _ in calls()} | set(re.findall(r"`((?:GET|HEAD|POST|PUT|DELETE) /v1[^`?]*)", PAGE))
    for base, text in re.findall(r"^## [^\n`]*`(/v1/[^`\n]*)`\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL):
        shown |= {f"{method} {base}" for method in re.findall(r"`(GET|POST)(?:`| \?)", text)}
    assert {each.call for each in OPERATIONS.values() if each.path.startswith("/v1/")} - shown == set()


FILES = "Files: `/webhdfs/v1/jobs/{store}/{path}`"


def test_the_exceptions_of_java_are_these() -> None:
    _, listed = tables(FILES)
    told = {(name.strip("`"), int(status)): re.findall(r"`([a-z-]+)`", text) for name, status, text in listed}
    assert told.keys() == {(each.short, each.status) for each in EXCEPTIONS.values()}
    for code, exception in EXCEPTIONS.items():
        assert code.value in told[exception.short, exception.status], code
    plain = (EXCEPTIONS[Code.STORAGE_FULL].short, 403)
    elsewhere = {code for (name, status), codes in told.items() for code in codes if (name, status) != plain}
    assert not elsewhere & set(told[plain])


def test_the_operations_on_files_are_these() -> None:
    listed, _ = tables(FILES)
    told = {(method, op) for ops, method, *_ in listed for op in re.findall(r"`([A-Z_]+)`", ops)}
    known = {"GET": READS, "PUT": WRITES, "DELETE": DELETES}
    assert told == {(method, op) for method, ops in known.items() for op in ops}


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
        f"A directory of more than {MOST_RENAMED} paths cannot be renamed. In a tree, a path has at most {MOST_BYTES}"
        f" bytes and {MOST_PARTS} parts.",
    ):
        assert listed in text
