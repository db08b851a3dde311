"""Whether the examples of the OpenAPI page look like what is really answered."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tests.wire.support.api import Json


def example_of(page: Json, method: str, path: str, status: int) -> Json:
    """The example of an answer."""
    content = page["paths"][path][method.lower()]["responses"][str(status)]["content"]
    example: Json = content["application/json"]["example"]
    return example


def same_shape(example: Any, real: Any, where: str, null: Collection[str] = ()) -> None:
    """The same members of the same types all the way down; keys of labels may be any.

    Neither null nor an empty list says what would stand there, so ``real`` must have none but for the members in
    ``null``, whose being null is what the deployment under test is like.
    """
    kind: Any = (int, float) if type(example) in (int, float) else type(example)
    assert example not in (None, []), f"{where}: the example tells nothing"
    assert real not in (None, []), f"{where}: nothing to compare with"
    assert isinstance(real, kind), f"{where}: {real!r} is not like {example!r}"
    assert (type(example) is bool) == (type(real) is bool), where
    if isinstance(example, dict):
        if where.endswith(".labels"):
            example, real = {"any": next(iter(example.values()))}, {"any": next(iter(real.values()))}
        assert example.keys() == real.keys(), where
        for key, value in example.items():
            if key not in null:
                same_shape(value, real[key], f"{where}.{key}", null)
            else:
                assert real[key] is None, f"{where}.{key}"
    if isinstance(example, list):
        for each in real:
            same_shape(example[0], each, f"{where}[]", null)
