"""What ``helm test`` runs: one small state is written, replaced, read and removed, as a driver would do it."""

from __future__ import annotations

import os
import re
import ssl
import urllib.request
import uuid
from pathlib import Path

import milepost

SECONDS = 60.0
STORE = "helm-test"


def writing_token(lines: str) -> str | None:
    """The first token of a token file that may write here; None if there is none that can be shown, as of hashes."""
    for line in lines.splitlines():
        name, *rest = line.partition("#")[0].split() or [""]
        if rest and not name.startswith("serviceaccount:") and not rest[0].startswith("sha256:") and writes(rest[1:]):
            return rest[0]
    return None


def writes(roles: list[str]) -> bool:
    """Whether a line with these roles lets its client write the store of this test; one without any lets it do all."""
    patterns = [each for role in roles if role.startswith("writer=") for each in role[len("writer=") :].split(",")]
    named = ["".join(".*" if part == "*" else re.escape(part) for part in pattern) for pattern in patterns]
    return not roles or "admin" in roles or any(re.fullmatch(pattern, STORE) for pattern in named)


def token() -> str | None:
    """The token to show: one of the token file, or that of this Pod's ServiceAccount; None where there are no tokens.

    Raises SystemExit if there are tokens, and none to show.
    """
    listed, account = (os.environ.get(f"MILEPOST_{name}TOKEN_FILE") for name in ("", "ACCOUNT_"))
    found = writing_token(Path(listed).read_text(encoding="utf-8")) if listed else None
    if found is None and account:
        return Path(account).read_text(encoding="utf-8").strip()
    if found is None and listed:
        raise SystemExit(f"the token file holds no token that may write the store {STORE}, or only hashes of tokens")
    return found


def trust() -> ssl.SSLContext:
    """Whom to trust, and perhaps a certificate to show."""
    context = ssl.create_default_context(cafile=os.environ.get("MILEPOST_CA"))
    if certificate := os.environ.get("MILEPOST_CERT"):
        context.load_cert_chain(certificate, os.environ["MILEPOST_KEY"])
    return context


def main() -> None:
    url = os.environ["MILEPOST_URL"]
    context = trust()
    with milepost.Client(url, token=token(), timeout=SECONDS, verify=context) as client:
        cell = client.of_job(STORE, begin=True)
        with cell.session(holder="helm test", ttl=SECONDS) as session:
            store = session.store(STORE)
            name = uuid.uuid4().hex
            handle = store.add_and_lock(name, b"first")
            store.replace(name, handle.version, b"second")
            assert store.read(name) == b"second", "another state than the one written was read"
            assert store.release_and_try_remove(name).removed, "the handle was not removed"
        status = cell.status()
        print(f"wrote, replaced, read and removed a state at {url}; {status.leader} leads at term {status.term}")
        for name, each in client.by_cell().items():
            if name:
                print(f"{each.status().leader} leads the cell {name}")
    leader = os.environ.get("MILEPOST_LEADER_URL")
    if leader:
        with urllib.request.urlopen(f"{leader}/leader", timeout=SECONDS, context=context) as answer:
            print(f"{leader} leads to the {answer.read().decode().strip()}")


if __name__ == "__main__":
    main()
