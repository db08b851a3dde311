"""What every answer must be, whatever was asked: what the served OpenAPI page says, and never a fault of the server."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
PROBLEM = "application/problem+json"
OF_A_HEALTHY_SERVER = {
    "not-supported": "blobs in files cannot sign, and nothing can be watched yet",
    "outcome-unknown": "a retry whose first answer may have been pushed out is not applied again",
}
"""Problems with 5xx that a server in good health may give, and why."""


class Wrong(AssertionError):
    """An answer, or the lack of one, that nothing documents."""


@dataclass
class Page:
    """The OpenAPI page, as far as answers are judged by it."""

    document: Json
    beside: dict[str, int] = field(init=False)
    """Problems of what is no call at all, as the page's description lists them, and their status."""

    def __post_init__(self) -> None:
        listed = re.findall(r"(\d{3})\s+`([a-z-]+)`", self.document["info"]["description"])
        self.beside = {code: int(status) for status, code in listed}

    def codes(self, method: str, path: str) -> dict[str, int]:
        """The problems of a call, and their status."""
        operation = self.document["paths"][path][method.lower()]
        return {
            code: int(status)
            for status, answer in operation["responses"].items()
            for code in answer.get("content", {}).get(PROBLEM, {}).get("examples", {})
        }

    def all_codes(self) -> dict[str, int]:
        """The problems of all calls, and of what is none."""
        found = dict(self.beside)
        for path, operations in self.document["paths"].items():
            for method in operations:
                found.update(self.codes(method, path))
        return found

    def judge_problem(self, status: int, body: bytes, known: Mapping[str, int]) -> str:
        """The code of a problem document, which must be whole and one of those ``known``. Raises `Wrong`."""
        try:
            document = json.loads(body)
            code = document["type"].removeprefix("urn:milepost:")
        except (ValueError, TypeError, KeyError) as error:
            raise Wrong(f"{status} with what is no problem document: {body[:300]!r}") from error
        required = self.document["components"]["schemas"]["Problem"]["required"]
        if missing := set(required) - document.keys():
            raise Wrong(f"{status} {code} lacks {sorted(missing)}")
        if document["status"] != status or known.get(code) != status:
            raise Wrong(f"{status} {code} is not documented: {document['detail']!r}")
        if status >= 500 and code not in OF_A_HEALTHY_SERVER:
            raise Wrong(f"{status} {code} by a server in good health: {document['detail']!r}")
        return str(code)
