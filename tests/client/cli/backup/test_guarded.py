"""``milepost backup`` and ``restore`` of a service that speaks TLS and has clients with different rights."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx
import pytest

import milepost
from testbed.server import ServerProcess
from tests.client.cli.conftest import Run, Said
from tests.client.self_signed import self_signed
from tests.wire.webhdfs.hadoop import Tree

TOKENS = {"driver": "the-token-of-drivers", "viewer": "the-token-of-viewers", "guest": "the-token-of-guests"}


def test_who_may_not_write_saves_no_files_and_restores_nothing(
    run: Run, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = map(str, self_signed(tmp_path))
    tokens = tmp_path / "tokens"
    tokens.write_text(
        f"driver {TOKENS['driver']} writer=*\n"
        f"viewer {TOKENS['viewer']} reader=*\n"
        f"guest {TOKENS['guest']} writer=own-*\n"
    )
    tokens.chmod(0o600)
    flags = ("--tls-cert", cert, "--tls-key", key, "--token-file", str(tokens))
    tls = ssl.create_default_context(cafile=cert)
    path = tmp_path / "backup.tar"
    with ServerProcess(tmp_path, *flags, tls=tls) as guarded:
        url = guarded.start().url
        headers = {"Authorization": f"Bearer {TOKENS['driver']}"}
        with (
            milepost.Client(url, token=TOKENS["driver"], verify=tls) as client,
            client.session() as session,
            httpx.Client(base_url=url, headers=headers, verify=tls, timeout=60.0) as http,
        ):
            store, other = session.store("job"), session.store("other")
            tree, restored = Tree(http, "job", store.campaign().epoch), Tree(http, "other")
            store.add_and_lock("latest", b"state")
            for name in ("checkpoint/state", "checkpoint/commits/0"):
                assert tree.create(name, name.encode() * 1000).status_code == 201
            store.resign()
            other.campaign()  # so that the next epoch there is above that of the backup
            other.resign()
            for variable, value in (("URL", url), ("CA", cert), ("TOKEN", TOKENS["viewer"])):
                monkeypatch.setenv(f"MILEPOST_{variable}", value)
            restoring = ("restore", str(path), "--store", "job", "--rename", "job=other")

            refused = run("backup", str(path))
            assert (refused.returncode, b"AccessDenied" in refused.stderr) == (1, True), refused.stderr
            assert not path.exists()
            monkeypatch.setenv("MILEPOST_TOKEN", TOKENS["driver"])
            said("backup", str(path))
            assert not any(token.encode() in path.read_bytes() for token in TOKENS.values())
            monkeypatch.setenv("MILEPOST_TOKEN", TOKENS["viewer"])
            refused = run(*restoring)
            assert (refused.returncode, b"AccessDenied" in refused.stderr) == (1, True), refused.stderr
            assert list(other.get_all_handles()) == []
            monkeypatch.setenv("MILEPOST_TOKEN", TOKENS["driver"])
            said(*restoring)
            assert other.read("latest") == b"state"
            for name in ("checkpoint/state", "checkpoint/commits/0"):
                assert restored.read(name).content == name.encode() * 1000

            monkeypatch.setenv("MILEPOST_TOKEN", TOKENS["guest"])
            refused = run("put", "job", "latest", stdin=b"state")
            assert refused.returncode == 1
            assert b"may not write the store 'job', which takes the role writer" in refused.stderr
            for command in (("backup", str(path)), ("fsck",)):
                assert b"warning: the token may not read every store" in run(*command).stderr
                assert b"warning" not in run(*command, "--store", "own-a").stderr
