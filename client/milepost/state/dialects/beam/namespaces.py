"""Windows of time, and namespaces of state, which separate the state of a key itself from that of each window, and of
each trigger of a window.

As bytes, a namespace is the prefix of the keys of its state, and sorts: first the global namespace, then the windows in
the order of their bytes, and after each window its triggers. So a window is one range, and so are all windows before
another.
"""

from __future__ import annotations

import base64
import binascii
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Any, TypeVar

from milepost.state.coders import Coder, CoderError, TimestampCoder, TupleCoder
from milepost.state.coders.framing import read_escaped, write_escaped
from milepost.state.dialects.beam.tables import check_deterministic
from milepost.state.errors import InvalidUse

W = TypeVar("W")

TIMESTAMP_MIN_VALUE = datetime.min.replace(tzinfo=timezone.utc)
"""The earliest time: a watermark has it until it first advances (Beam's name)."""

TIMESTAMP_MAX_VALUE = datetime.max.replace(tzinfo=timezone.utc)
"""The latest time: a watermark that has it lets no more data come (Beam's name)."""

_RESOLUTION = timedelta(microseconds=1)


class BoundedWindow(ABC):
    """A window that ends (Beam's ``BoundedWindow``). Equal windows share their state."""

    @abstractmethod
    def max_timestamp(self) -> datetime:
        """Return the last time in the window (Beam's ``maxTimestamp``)."""


@dataclass(frozen=True)
class GlobalWindow(BoundedWindow):
    """The single window that contains all times (Beam's ``GlobalWindow``)."""

    def max_timestamp(self) -> datetime:
        return TIMESTAMP_MAX_VALUE - timedelta(days=1)  # as in Beam: a watermark can still pass this time


@dataclass(frozen=True)
class IntervalWindow(BoundedWindow):
    """The times from ``start`` up to, but not including, ``end``, both with a time zone (Beam's ``IntervalWindow``)."""

    start: datetime
    end: datetime

    def max_timestamp(self) -> datetime:
        return self.end - _RESOLUTION


class GlobalWindowCoder(Coder[GlobalWindow]):
    """Encodes the global window as no bytes."""

    deterministic = True
    ordered = True
    width = 0

    def encode(self, value: GlobalWindow) -> bytes:
        if type(value) is not GlobalWindow:
            raise CoderError(f"this coder takes the global window, not {type(value).__name__}")
        return b""

    def decode(self, data: bytes) -> GlobalWindow:
        if data:
            raise CoderError("the global window has no bytes")
        return GlobalWindow()


class IntervalWindowCoder(Coder[IntervalWindow]):
    """Encodes an interval window as 16 bytes, the end first: so windows sort by their end, and then by their start."""

    deterministic = True
    ordered = True
    width = 16

    _times = TupleCoder(TimestampCoder(), TimestampCoder())

    def encode(self, value: IntervalWindow) -> bytes:
        if type(value) is not IntervalWindow:
            raise CoderError(f"this coder takes an IntervalWindow, not {type(value).__name__}")
        data = self._times.encode((value.end, value.start))
        if value.start >= value.end:
            raise CoderError(f"a window ends after it starts: {value}")
        return data

    def decode(self, data: bytes) -> IntervalWindow:
        end, start = self._times.decode(data)
        return IntervalWindow(start, end)


_GLOBAL = b"\x00"
_WINDOW = b"\x01"
_ITSELF = b"\x00"
_TRIGGER = b"\x01"
_INDEX_BYTES = 4
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_FORM = re.compile(r"/(?P<window>[A-Za-z0-9_-]*)/(?:(?P<index>0|[1-9A-Z][0-9A-Z]*)/)?")

FIRST_WINDOW = _WINDOW
"""The first byte of all namespaces of windows; the global namespace sorts before it."""


class StateNamespace(ABC):
    """A namespace of state: that of a key itself, of a window or of a trigger (Beam's ``StateNamespace``). Two
    namespaces are equal if their bytes are equal.
    """

    @property
    @abstractmethod
    def key(self) -> bytes:
        """The namespace as bytes. They are never a prefix of another namespace's bytes."""

    @property
    def prefix(self) -> bytes:
        """The beginning of this namespace's bytes and, for a window, of the namespaces of its triggers too."""
        return self.key

    @property
    @abstractmethod
    def string_key(self) -> str:
        """The namespace as text, in a form that does not change between releases (Beam's ``stringKey``)."""


@dataclass(frozen=True)
class GlobalNamespace(StateNamespace):
    """The namespace of a key's state outside of all windows (Beam's ``GlobalNamespace``)."""

    key = _GLOBAL
    string_key = "/"


@dataclass(frozen=True)
class WindowNamespace(StateNamespace):
    """The namespace of one window (Beam's ``WindowNamespace``)."""

    window_bytes: bytes = field(repr=False)
    window: Any = field(compare=False)
    window_coder: Coder[Any] = field(compare=False, repr=False)

    @cached_property
    def window_prefix(self) -> bytes:
        """The common beginning of the bytes of the window's namespace and of its triggers' namespaces."""
        return _WINDOW + write_escaped(self.window_bytes)

    @property
    def prefix(self) -> bytes:
        return self.window_prefix

    @cached_property
    def key(self) -> bytes:
        return self.window_prefix + _ITSELF

    @property
    def string_key(self) -> str:
        return f"/{base64.urlsafe_b64encode(self.window_bytes).decode().rstrip('=')}/"


@dataclass(frozen=True)
class WindowAndTriggerNamespace(WindowNamespace):
    """The namespace of one trigger of a window (Beam's ``WindowAndTriggerNamespace``)."""

    trigger_index: int

    @cached_property
    def key(self) -> bytes:
        return self.window_prefix + _TRIGGER + self.trigger_index.to_bytes(_INDEX_BYTES, "big")

    @property
    def prefix(self) -> bytes:
        return self.key

    @property
    def string_key(self) -> str:
        return f"{super().string_key}{_to_base_36(self.trigger_index)}/"


class StateNamespaces:
    """Makes namespaces, and reads them from text and from bytes (Beam's ``StateNamespaces``)."""

    @staticmethod
    def global_namespace() -> StateNamespace:
        """Return the namespace of a key's state outside of all windows (Beam's ``global``, which is a keyword in
        Python).
        """
        return GlobalNamespace()

    @staticmethod
    def window(window_coder: Coder[W], window: W) -> WindowNamespace:
        """Return the namespace of a window (Beam's ``window``). Raises `NotDeterministic` if ``window_coder`` may
        encode equal windows differently, and `CoderError` if it refuses the window.
        """
        return WindowNamespace(_encoded(window_coder, window), window, window_coder)

    @staticmethod
    def window_and_trigger(window_coder: Coder[W], window: W, trigger_index: int) -> WindowAndTriggerNamespace:
        """Return the namespace of the trigger number ``trigger_index`` of a window, from 0 (Beam's
        ``windowAndTrigger``). Raises `InvalidUse` for a number that no trigger can have.
        """
        if not 0 <= trigger_index < 1 << 31:
            raise InvalidUse(f"triggers have numbers from 0 to 2147483647, not {trigger_index}")
        return WindowAndTriggerNamespace(_encoded(window_coder, window), window, window_coder, trigger_index)

    @staticmethod
    def from_string(string_key: str, window_coder: Coder[Any]) -> StateNamespace:
        """Read a namespace from its text, `StateNamespace.string_key` (Beam's ``fromString``). ``window_coder`` decodes
        the window. Raises `CoderError` for another text.
        """
        if string_key == "/":
            return GlobalNamespace()
        found = _FORM.fullmatch(string_key)
        if found is None:
            raise CoderError(f"this is no namespace: {string_key!r}")
        text = found["window"]
        try:
            data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except binascii.Error as error:
            raise CoderError(f"this is no namespace: {string_key!r}") from error
        namespace = _read(data, int(found["index"], 36) if found["index"] else None, window_coder)
        if namespace.string_key != string_key:
            raise CoderError(f"this is no namespace, or not of this coder: {string_key!r}")
        return namespace

    @staticmethod
    def from_bytes(key: bytes, window_coder: Coder[Any]) -> StateNamespace:
        """Read a namespace from its bytes, `StateNamespace.key`. ``window_coder`` decodes the window. Raises
        `CoderError` for other bytes.
        """
        if key == _GLOBAL:
            return GlobalNamespace()
        if key[:1] != _WINDOW:
            raise CoderError("these bytes are no namespace")
        data, end = read_escaped(key, 1)
        rest = key[end:]
        if rest == _ITSELF:
            return _read(data, None, window_coder)
        if rest[:1] != _TRIGGER or len(rest) != 1 + _INDEX_BYTES:
            raise CoderError("these bytes are no namespace")
        return _read(data, int.from_bytes(rest[1:], "big"), window_coder)


def _encoded(coder: Coder[W], window: W) -> bytes:
    check_deterministic(coder, "windows")
    return coder.encode(window)


def _read(data: bytes, index: int | None, coder: Coder[Any]) -> StateNamespace:
    window = coder.decode(data)
    try:
        if index is not None:
            return StateNamespaces.window_and_trigger(coder, window, index)
        return StateNamespaces.window(coder, window)
    except InvalidUse as error:
        raise CoderError(f"this is no namespace: {error}") from error


def _to_base_36(number: int) -> str:
    digits = _DIGITS[number % 36]
    while number := number // 36:
        digits = _DIGITS[number % 36] + digits
    return digits
