"""The command on a service that speaks TLS and wants certificates."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from testbed.server import ServerProcess
from tests.client.cli.conftest import Run, Said
from tests.client.self_signed import self_signed


def test_options_and_environment(run: Run, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cert, key = map(str, self_signed(tmp_path))
    flags = ("--tls-cert", cert, "--tls-key", key, "--tls-client-ca", cert)
    with ServerProcess(tmp_path, *flags, tls=ssl.create_default_context(cafile=cert)) as guarded:
        monkeypatch.setenv("MILEPOST_URL", guarded.start().url)
        untrusting = run("status")
        assert (untrusting.returncode, untrusting.stderr.count(b"\n")) == (3, 1)
        assert b"ConnectionFailed" in untrusting.stderr
        assert b"--ca" in untrusting.stderr
        unknown = run("--ca", cert, "status")
        assert (unknown.returncode, b"AccessDenied" in unknown.stderr) == (1, True)
        assert guarded.url in said("--ca", cert, "--cert", cert, "--key", key, "status")
        for name, value in (("CA", cert), ("CERT", cert), ("KEY", key)):
            monkeypatch.setenv(f"MILEPOST_{name}", value)
        assert guarded.url in said("status")


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--ca", "/nowhere/ca.crt"], b"/nowhere/ca.crt: No such file"), (["--key", "/nowhere/key"], b"give --cert too")],
)
def test_what_is_wrong_with_an_option_is_said(run: Run, options: list[str], message: bytes) -> None:
    ended = run(*options, "status")
    assert ended.returncode == 2
    assert message in ended.stderr
    assert b"Traceback" not in ended.stderr
