"""Lets a program run as if on a machine of its own: no file of others can be seen, and no process either."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

_PROJECT = Path(__file__).resolve().parents[1]
_HIDE = """
own=$1; project=$2; shift 2
exec 3<"$own" 4<"$project"
while [ "$1" != -- ]; do
    mkdir -p "$1"
    mount -t tmpfs -o mode=1777 tmpfs "$1"
    case $project in "$1"/*)
        mkdir -p "$project"
        mount --no-canonicalize --bind /proc/self/fd/4 "$project" ;;
    esac
    shift
done
shift
mkdir -p "$own"
mount --no-canonicalize --bind /proc/self/fd/3 "$own"
exec 3<&- 4<&-
exec "$@"
"""


def apart(own: Path, hidden: Sequence[Path]) -> Sequence[str]:
    """Return what to put before a command, for which /tmp and the directories ``hidden`` are empty, but for ``own``.

    What lies elsewhere can be read as ever, so that no program has to be installed, and this project wherever it lies,
    since its environment has programs. Processes that the command
    starts end with it, also those that stand still. It needs root, or a system that lets users make namespaces.
    """
    empty = dict.fromkeys([Path("/tmp"), *hidden])
    namespaces = ("--mount", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc")
    return ("unshare", *namespaces, "--", "sh", "-ec", _HIDE, "sh", str(own), str(_PROJECT), *map(str, empty), "--")
