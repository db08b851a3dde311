"""What ``helm test`` runs: one small state is written, replaced, read and removed, as a driver would do it."""

from __future__ import annotations

import os
import urllib.request
import uuid
from pathlib import Path

import milepost

SECONDS = 60.0


def writing_token(lines: str) -> str:
    """The first token of a token file that may write. Raises SystemExit without one."""
    for line in lines.splitlines():
        fields = line.partition("#")[0].split()
        if len(fields) == 2:
            return fields[1]
    raise SystemExit("the token file holds no token that may write")


def main() -> None:
    url = os.environ["MILEPOST_URL"]
    path = os.environ.get("MILEPOST_TOKEN_FILE")
    token = writing_token(Path(path).read_text(encoding="utf-8")) if path else None
    with milepost.Client(url, token=token, timeout=SECONDS) as client:
        with client.session(holder="helm test", ttl=SECONDS) as session:
            store = session.store("helm-test")
            name = uuid.uuid4().hex
            handle = store.add_and_lock(name, b"first")
            store.replace(name, handle.version, b"second")
            assert store.read(name) == b"second", "another state than the one written was read"
            assert store.release_and_try_remove(name).removed, "the handle was not removed"
        status = client.status()
    print(f"wrote, replaced, read and removed a state at {url}; {status.leader} leads at term {status.term}")
    leader = os.environ.get("MILEPOST_LEADER_URL")
    if leader:
        with urllib.request.urlopen(f"{leader}/leader", timeout=SECONDS) as answer:
            print(f"{leader} leads to the {answer.read().decode().strip()}")


if __name__ == "__main__":
    main()
