"""The inventory of what users lean on: names of the SDK, calls, members, codes, headers, flags, values, metrics.

``promises.json`` has that of a release. Whatever stands there is still there today, or went as docs/compatibility.md
says: the changelog named it under "Deprecated" in one minor version, and under "Removed" in a later one.

``python -m tests.compatibility.promises`` writes the inventory anew when a version is released. It adds what is new,
and drops only what has gone in that way, so writing it does not hide that something went otherwise.
"""

from __future__ import annotations

import inspect
import json
import re
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Final

import milepost
from milepost.cli.app import root_command
from milepost.wire import Code, Header
from milepost_server.__main__ import parser
from testbed.server import ROOT, ServerProcess
from tests.client import test_public_names as sdk
from tests.deploy import chart_page

FILE: Final = Path(__file__).with_name("promises.json")
CHANGELOG: Final = ROOT / "CHANGELOG.md"

Inventory = Mapping[str, set[str]]
"""Names by what they are names of. Each is written as the changelog writes it between backticks."""


@dataclass(frozen=True)
class Gone:
    """What the changelog says of things that go, by the version that says so; `UNRELEASED` is the one to come."""

    deprecated: Mapping[str, tuple[int, int]]
    removed: Mapping[str, tuple[int, int]]

    def properly(self, name: str) -> bool:
        """Whether a thing was deprecated at least one minor version before the one that removed it."""
        return name in self.removed and name in self.deprecated and self.deprecated[name] < self.removed[name]


UNRELEASED: Final = (10**6, 0)


def gone(changelog: str) -> Gone:
    """Read the changelog: names between backticks, in the lists under "Deprecated" and "Removed"."""
    found: dict[str, dict[str, tuple[int, int]]] = {"Deprecated": {}, "Removed": {}}
    for head, text in re.findall(r"^## \[(.+?)\][^\n]*\n(.*?)(?=^## |\Z)", changelog, re.DOTALL | re.MULTILINE):
        numbers = re.match(r"(\d+)\.(\d+)\.", head)
        version = (int(numbers[1]), int(numbers[2])) if numbers else UNRELEASED
        for kind, items in re.findall(r"^### (Deprecated|Removed)\n(.*?)(?=^### |\Z)", text, re.DOTALL | re.MULTILINE):
            for name in re.findall(r"`([^`]+)`", items):
                found[kind][name] = min(version, found[kind].get(name, version))
    return Gone(found["Deprecated"], found["Removed"])


def released(changelog: str) -> str | None:
    """The newest version that the changelog says is released; None before the first."""
    versions = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", changelog, re.MULTILINE)
    return versions[0] if versions else None


def recorded() -> tuple[str, Inventory]:
    """The version whose inventory is kept, and that inventory."""
    document = json.loads(FILE.read_text(encoding="utf-8"))
    return document["version"], {kind: set(names) for kind, names in document["promises"].items()}


def today(openapi: Mapping[str, Any]) -> Inventory:
    """The inventory of this tree. ``openapi`` is the page of one of its servers."""
    return {
        "names of the SDK": set(_names()),
        "calls": {f"{method.upper()} {path}" for path, each in openapi["paths"].items() for method in each},
        "members": {
            f"{name}.{member}"
            for name, schema in openapi["components"]["schemas"].items()
            for member in schema.get("properties", ())
        },
        "problem codes": {code.value for code in Code},
        "headers": {value for name, value in vars(Header).items() if not name.startswith("_")},
        "flags of the server": {option for action in parser({})._actions for option in action.option_strings},
        "commands and their options": set(_options(root_command(), "milepost")),
        "values of the chart": {value.path for value in chart_page.values(chart_page.VALUES.read_text("utf-8"))},
        "metrics": set(re.findall(r"\bmilepost_[a-z0-9_]+\b", (ROOT / "docs" / "metrics.md").read_text("utf-8"))),
    }


def lost(before: Inventory, now: Inventory, changes: Gone) -> dict[str, list[str]]:
    """What was promised, is not there any more, and did not go as the page says."""
    missing = {kind: sorted(names - now.get(kind, set())) for kind, names in before.items()}
    kept = {kind: [name for name in names if not changes.properly(name)] for kind, names in missing.items()}
    return {kind: names for kind, names in kept.items() if names}


def openapi_page() -> dict[str, Any]:
    """The page of a real server of this tree."""
    with tempfile.TemporaryDirectory() as directory, ServerProcess(Path(directory)) as server:
        server.start()
        with urllib.request.urlopen(server.url + "/openapi.json", timeout=60) as answer:
            page: dict[str, Any] = json.load(answer)
            return page


def _names() -> Iterator[str]:
    """Public things, the methods and fields of classes, and the parameters by which functions are called."""
    for name, thing in sdk.public().items():
        yield name
        if inspect.isclass(thing):
            yield from (f"{name}.{member}" for member, _ in sdk.members(thing))
            if is_dataclass(thing):
                yield from (f"{name}.{each.name}" for each in fields(thing) if not each.name.startswith("_"))
    for name, function in sdk.functions().items():
        for parameter in inspect.signature(function).parameters:
            if parameter != "self":
                yield f"{name}({parameter})"


def _options(command: Any, path: str) -> Iterator[str]:
    """A command, its options and those of the commands below it. Which click they are classes of is up to typer."""
    yield path
    for parameter in command.params:
        if parameter.param_type_name == "option":
            yield from (f"{path} {option}" for option in [*parameter.opts, *parameter.secondary_opts])
    for name, each in getattr(command, "commands", {}).items():
        yield from _options(each, f"{path} {name}")


def main() -> None:
    """Write the inventory of this version."""
    now, changelog = today(openapi_page()), CHANGELOG.read_text(encoding="utf-8")
    left = lost(recorded()[1], now, gone(changelog))
    if left and released(changelog):  # before the first release nobody can lean on anything
        raise SystemExit(f"these were promised, and did not go as docs/compatibility.md says: {left}")
    document = {"version": milepost.__version__, "promises": {kind: sorted(names) for kind, names in now.items()}}
    FILE.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
