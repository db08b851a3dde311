"""Makes the site's table of REST operations from the OpenAPI description that the server answers."""

from __future__ import annotations

import json
from typing import Any

import milepost
from milepost_server.compose import routes
from milepost_server.http.openapi.description import Description

_METHODS = ("get", "head", "post", "put", "delete")


def table() -> str:
    """Return a table of all operations, in Markdown: the call, what it does, its answers, its refusals."""
    described = json.loads(Description(milepost.__version__, routes()).page)
    lines = ["| call | what it does | done | refused |", "|---|---|---|---|"]
    for path, calls in described["paths"].items():
        lines += [_row(method, path, calls[method]) for method in _METHODS if method in calls]
    return "\n".join(lines)


def _row(method: str, path: str, operation: dict[str, Any]) -> str:
    said = str(operation.get("description") or operation.get("summary", "")).split("\n\n")[0].replace("\n", " ")
    done = [status for status in operation["responses"] if status < "4"]
    refused = {
        code: status
        for status, response in operation["responses"].items()
        for code in response.get("content", {}).get("application/problem+json", {}).get("examples", {})
        if status >= "4"
    }
    codes = ", ".join(f"[`{code}`](troubleshooting.md#{code})" for code in refused)
    return f"| `{method.upper()} {path}` | {said.replace('|', chr(92) + '|')} | {', '.join(done)} | {codes} |"
