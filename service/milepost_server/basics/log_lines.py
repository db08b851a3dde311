"""Formats the log so that each record is one line, whatever text it contains."""

from __future__ import annotations

import logging
import textwrap
from types import TracebackType
from typing import TypeAlias

_Raised: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class LogLines(logging.Formatter):
    """A formatter that escapes unprintable characters in messages, and indents tracebacks.

    So no name or path in a message, nor the text of an exception, can pass for a line of the log.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line of a record, without a traceback."""
        return _printable(super().formatMessage(record))

    def formatException(self, ei: _Raised) -> str:
        """Return the lines of a traceback."""
        lines = super().formatException(ei).split("\n")
        return textwrap.indent("\n".join(map(_printable, lines)), "  ", lambda _: True)


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)
