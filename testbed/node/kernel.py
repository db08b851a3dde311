"""Reads and restores those settings of the kernel that a kubelet changes for the whole machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_ROOT = Path("/proc/sys")
_CHANGED = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)


def settings() -> dict[str, str]:
    """Return the settings as they are now."""
    return {name: (_ROOT / name).read_text().strip() for name in _CHANGED if (_ROOT / name).exists()}


def restore(noted: Mapping[str, str]) -> None:
    """Set the settings again that `settings` returned before."""
    for name, value in noted.items():
        if (_ROOT / name).read_text().strip() != value:
            (_ROOT / name).write_text(value)
