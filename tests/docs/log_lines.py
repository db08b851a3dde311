"""Finds what the service, the backends and the SDK log as a warning or worse, as a reader of the log sees it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.docs.blocks import ROOT

_LEVELS = ("warning", "error", "critical", "exception")
_PLACE = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?[a-z]")


def log_lines() -> set[str]:
    """Return each line, with ``…`` for what differs from time to time; without those that are nothing else."""
    found = {line for path in ("service", "backends", "client/milepost") for line in _of(path)}
    return {line for line in found if re.search(r"[a-z]{3}", line)}


def _of(directory: str) -> Iterator[str]:
    for path in sorted((ROOT / directory).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args and _logs(node.func):
                yield from _texts(node.args[0])


def _logs(called: ast.expr) -> bool:
    if not isinstance(called, ast.Attribute):
        return False
    of_a_logger = ast.unparse(called.value) in ("log", "logger", "_log", "self._log")
    return called.attr == "_log_once" or (called.attr in _LEVELS and of_a_logger)


def _texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield _PLACE.sub("…", node.value)
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)
    elif isinstance(node, ast.BinOp):
        for left in _texts(node.left):
            for right in _texts(node.right):
                yield left + right
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)


if __name__ == "__main__":
    print("\n".join(sorted(log_lines())))
