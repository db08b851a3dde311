"""The public names of the SDK: each says what it does, and the same thing has one name everywhere.

Names in Spark's own style are kept for what imitates Spark.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_origin

import pytest

import milepost
import milepost.aio
import milepost.checkpoints
import milepost.codecs

MODULES = ["milepost", "milepost.aio", "milepost.checkpoints", "milepost.codecs", "milepost.spark"]
SDK = Path(milepost.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "sdk.md"

SAID_OTHERWISE = {
    "deadline": "timeout",
    "timeout_seconds": "timeout",
    "seconds": "timeout",
    "callback": "progress",
    "on_progress": "progress",
    "addresses": "url",
    "urls": "url",
    "address": "url",
    "page": "page_size",
    "limit": "page_size",
    "session": "session_id",
    "ca": "verify",
    "bytes": "state",
    "data": "state",
    "value": "state or value of a codec",
}
IMITATES_SPARK = {"checkpointLocation", "exactlyOnce", "awaitTermination", "batchId", "txnAppId", "txnVersion"}
SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
CAMEL = re.compile(r"[A-Z][A-Za-z0-9]*")


def modules() -> Iterator[Any]:
    for name in MODULES:
        if name == "milepost.spark":
            try:
                importlib.import_module("pyspark")
            except ModuleNotFoundError:  # the environments of test-sdk have none; the repository's own has
                continue
        yield importlib.import_module(name)


def public() -> dict[str, Any]:
    """Functions and classes, by the names under which users import them."""
    found = {}
    for module in modules():
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                found[f"{module.__name__}.{name}"] = thing
    return found


def members(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """Methods and properties that a class of the SDK itself defines."""
    for owner in kind.__mro__:
        if owner.__module__.startswith("milepost"):
            for name, member in vars(owner).items():
                plain = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
                if not name.startswith("_") and (inspect.isfunction(plain) or isinstance(plain, property)):
                    yield name, plain


def functions() -> dict[str, Any]:
    """All public functions and methods, the constructors of classes that people make among them."""
    found: dict[str, Any] = {name: thing for name, thing in public().items() if inspect.isfunction(thing)}
    for name, kind in public().items():
        if inspect.isclass(kind):
            found |= {f"{name}.{member}": thing for member, thing in members(kind) if inspect.isfunction(thing)}
            if "__init__" in vars(kind) and is_made_by_users(kind):
                found[f"{name}.__init__"] = kind.__init__
    return found


def is_made_by_users(kind: type[Any]) -> bool:
    """Return whether users call the constructor: not that of an error or a record, nor one that takes inner parts."""
    inner = ("Driver", "TakenOver")
    taken = [str(each.annotation) for each in inspect.signature(kind).parameters.values()]
    made_elsewhere = issubclass(kind, BaseException) or is_dataclass(kind)
    return not made_elsewhere and not any(part in annotation for part in inner for annotation in taken)


def test_there_is_something_to_look_at() -> None:
    assert {"milepost.Client", "milepost.aio.AsyncClient", "milepost.checkpoints.CheckpointRegistry"} <= set(public())
    assert {"milepost.Client.status", "milepost.StateHandleStore.read"} <= set(functions())


def test_everything_says_what_it_is() -> None:
    named = {
        name: thing for name, thing in public().items() if get_origin(thing) is None
    }  # an alias has none of its own
    mute = [name for name, thing in named.items() if not (thing.__doc__ or "").strip()]
    for name, thing in functions().items():
        if not (thing.__doc__ or "").strip():
            mute.append(name)
    for name, kind in public().items():
        if inspect.isclass(kind):
            mute += [f"{name}.{each}" for each, thing in members(kind) if not (thing.__doc__ or "").strip()]
    assert mute == []


def test_everything_has_its_types() -> None:
    bare = []
    for name, thing in functions().items():
        signature = inspect.signature(thing)
        if signature.return_annotation is inspect.Signature.empty:
            bare.append(name)
        untyped = [each.name for each in signature.parameters.values() if each.annotation is inspect.Parameter.empty]
        bare += [f"{name}({parameter})" for parameter in untyped if parameter != "self"]
    assert bare == []


def test_the_same_thing_has_one_name() -> None:
    off = []
    for name, thing in functions().items():
        for parameter in inspect.signature(thing).parameters.values():
            better = SAID_OTHERWISE.get(parameter.name)
            if better is not None and not (name.startswith("milepost.codecs.") and parameter.name == "value"):
                off.append(f"{name}({parameter.name}): say {better}")
            if not SNAKE.fullmatch(parameter.name):
                off.append(f"{name}({parameter.name}): not in Python's style")
    assert off == []


def test_names_are_in_pythons_style_but_for_what_imitates_spark() -> None:
    off = [name for name, thing in public().items() if not style_of(thing).fullmatch(name.rpartition(".")[2])]
    camels = set()
    for name, kind in public().items():
        if inspect.isclass(kind):
            fields = [*getattr(kind, "__dataclass_fields__", ())]
            for each in [*(member for member, _ in members(kind)), *fields]:
                if not SNAKE.fullmatch(each):
                    camels.add(each)
                    if not name.startswith("milepost.spark."):
                        off.append(f"{name}.{each}")
    assert off == []
    assert camels <= IMITATES_SPARK


def style_of(thing: Any) -> re.Pattern[str]:
    return CAMEL if inspect.isclass(thing) else SNAKE


@pytest.mark.parametrize(
    "kind",
    [
        milepost.Client,
        milepost.StateHandleStore,
        milepost.JobFiles,
        milepost.checkpoints.CheckpointRegistry,
    ],
)
def test_whatever_asks_the_service_takes_a_timeout(kind: type[Any]) -> None:
    """What asks nobody is told by its source: it runs no operation and calls no store."""
    asked = 0
    for name, member in members(kind):
        if not inspect.isfunction(member):
            continue
        source = inspect.getsource(member)
        if re.search(r"_driver\.(run|stream)\(|self\._store\.|_cleaner\.(clean|catch_up)|_lock_all\(", source):
            asked += 1
            parameters = inspect.signature(member).parameters
            assert "wait" in parameters or parameters["timeout"].kind is inspect.Parameter.KEYWORD_ONLY, name
    assert asked


def test_timeouts_and_progress_are_given_by_name_and_have_one_type() -> None:
    kinds: dict[str, set[str]] = {"timeout": set(), "progress": set()}
    for name, thing in functions().items():
        if name.endswith(".__init__") or name.startswith("milepost.spark"):
            continue
        for parameter in inspect.signature(thing).parameters.values():
            if parameter.name in kinds:
                assert parameter.kind is inspect.Parameter.KEYWORD_ONLY, name
                kinds[parameter.name].add(str(parameter.annotation))
    assert kinds == {"timeout": {"float | None"}, "progress": {"Progress | None"}}


def test_each_logger_is_one_of_the_documented_ones() -> None:
    documented = set(re.findall(r"^\| `(milepost\.[a-z]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    used = set()
    for path in SDK.rglob("*.py"):
        module = ".".join(("milepost", *path.relative_to(SDK).with_suffix("").parts))
        for given in re.findall(r"logging\.getLogger\(([^)]*)\)", path.read_text(encoding="utf-8")):
            used.add(module if given == "__name__" else given.strip("\"'"))
    used -= {"httpcore.http11", "py4j.clientserver"}  # not ours
    roots = {".".join(name.split(".")[:2]) for name in used if name != "milepost"}
    assert roots == documented


def test_a_program_without_logging_sees_warnings_and_no_more() -> None:
    program = (
        "import milepost, logging; log = logging.getLogger('milepost.calls'); log.warning('seen'); log.info('not')"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stderr == "seen\n"


@pytest.mark.later
def test_all_modules_can_be_imported_by_themselves() -> None:
    """A module that needs another to be imported first would break whoever imports just it."""
    names = [info.name for info in pkgutil.iter_modules([str(SDK)], "milepost.")]
    wanted = [name for name in names if name.rpartition(".")[2] not in ("spark", "cli")]
    program = "import importlib, sys; importlib.import_module(sys.argv[1])"
    for name in wanted:
        subprocess.run([sys.executable, "-W", "error", "-c", program, name], timeout=60, check=True)
