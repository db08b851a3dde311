"""Turns the docstrings' literal blocks (``::``) into Markdown, for the reference of the SDK."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ALONE = re.compile(r"^::\n\n", re.MULTILINE)
_AT_THE_END = re.compile(r"::$", re.MULTILINE)


class Markdown(griffe.Extension):
    """Rewrites each docstring once it is read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = _AT_THE_END.sub(":", _ALONE.sub("", obj.docstring.value))
