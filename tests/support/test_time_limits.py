"""Each request of a test names how long it may take: the five seconds of httpx are too few on a busy machine."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
REQUESTING = {"AsyncClient", "Client", "delete", "get", "head", "patch", "post", "put", "request", "stream"}


def unlimited(module: Path) -> list[int]:
    """The lines of a module that begin something of httpx without a `timeout`."""
    text = module.read_text(encoding="utf-8")
    return [
        node.lineno
        for node in (ast.walk(ast.parse(text)) if "httpx." in text else ())
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and (node.func.value.id, node.func.attr in REQUESTING) == ("httpx", True)
        and "timeout" not in {keyword.arg for keyword in node.keywords}
    ]


def test_each_request_of_the_tests_names_its_time() -> None:
    found = [
        f"{path.relative_to(TESTS.parent)}:{line}" for path in sorted(TESTS.rglob("*.py")) for line in unlimited(path)
    ]
    assert found == []


def test_a_request_without_one_is_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("import httpx\n\nhttpx.get('http://a', timeout=60.0)\nwith httpx.Client():\n    pass\n")
    assert unlimited(module) == [4]
