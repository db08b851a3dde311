"""Wrong settings end the start with one line, and never with a secret in it."""

from __future__ import annotations

import logging
import socket
from importlib.metadata import version
from pathlib import Path

import pytest

from milepost_server.__main__ import advertised, main
from tests.support.servers.certificates import Certificates

WRONG: dict[str, list[str]] = {
    "every address, none to reach it by": ["--listen", "0.0.0.0:7070", "--insecure"],
    "the same in IPv6": ["--listen", "[::]:7070", "--insecure"],
    "no host at all": ["--listen", ":7070", "--insecure"],
    "a password for the pointers": ["--pointers", "zookeeper://user:secret@127.0.0.1:1/milepost"],
    "a password for the blobs": ["--blobs", "s3://user:secret@bucket/prefix"],
    "a password in what is advertised": ["--advertise", "http://user:secret@127.0.0.1:7070"],
    "no log level": ["--log-level", "loud"],
}


def one_line(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    """What a start that fails says at last."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said.splitlines()[-1]


@pytest.mark.parametrize("arguments", WRONG.values(), ids=WRONG)
def test_wrong_flags(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert "secret" not in one_line(capsys, arguments)


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--epochs-above", "x", "argument --epochs-above: takes a whole number, 1 or more, not 'x'"),
        ("--max-state-bytes", "0", "argument --max-state-bytes: takes a whole number, 1 or more, not '0'"),
        ("--inline-below", "x", "argument --inline-below: takes a number of bytes from 0 to "),
        ("--linger", "x", "argument --linger: takes a number of seconds, 0 or more, not 'x'"),
        ("--token-file", "/nosuch", "--token-file: cannot read /nosuch: No such file or directory"),
    ],
)
def test_a_wrong_value_is_told_with_its_flag(
    capsys: pytest.CaptureFixture[str], flag: str, value: str, said: str
) -> None:
    assert said in one_line(capsys, [flag, value])


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"milepost-server {version('milepost-server-core')}\n")


def test_a_wrong_log_level_in_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILEPOST_LOG_LEVEL", "loud")
    assert "'loud'" in one_line(capsys, [])


def test_a_port_that_is_taken_is_said_before_anything_is_opened(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, caplog.at_level(logging.INFO):
        port = other.getsockname()[1]
        places = ["--pointers", f"embedded:{tmp_path}/pointers", "--blobs", f"file:{tmp_path}/blobs"]
        said = one_line(capsys, ["--listen", f"127.0.0.1:{port}", *places])
    assert said.endswith(f"cannot listen on 127.0.0.1 port {port}: Address already in use")
    assert "listening" not in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_certificates_that_do_not_fit(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made = Certificates(tmp_path)
    cert, key, ca = str(made.certificate), str(made.key), str(made.ca)
    both = ["--tls-cert", cert, "--tls-key", key]
    for arguments, said in (
        (both[:2], "--tls-cert and --tls-key are given together"),
        (both[2:], "--tls-cert and --tls-key are given together"),
        (["--tls-client-ca", ca], "--tls-client-ca needs --tls-cert"),
        (
            ["--tls-cert", cert, "--tls-key", f"{key}.old"],
            f"cannot read the key in {key}.old: No such file",
        ),
        ([*both, "--tls-client-ca", key], "holds no certificate of an authority"),
        (
            [*both, "--tls-ca", str(tmp_path)],
            f"certificates in {tmp_path}: Is a directory",
        ),
        ([*both, "--advertise", "http://127.0.0.1:7070"], "--advertise takes an https URL"),
        ([*both, "--listen", "192.0.2.1:7070"], "refusing to listen on 192.0.2.1 without authentication"),
        ([*both, "--tls-client-ca", ca, "--listen", "192.0.2.1:7070"], "cannot listen on 192.0.2.1"),
    ):
        assert said in one_line(capsys, arguments)


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://10.1.2.3:7070", "http://10.1.2.3:7070"),
        ("https://{10.1.2.3}.milepost-replicas.data.svc:7070", "https://10-1-2-3.milepost-replicas.data.svc:7070"),
        ("https://{fd00::1:17}.milepost-replicas.data.svc", "https://fd00--1-17.milepost-replicas.data.svc"),
        ("", ""),
    ],
)
def test_an_address_in_braces_is_written_with_dashes(given: str, url: str) -> None:
    assert advertised(given) == url


@pytest.mark.parametrize("given", ["https://{}.svc", "https://{POD_IP}.svc", "https://{10.1.2}.svc"])
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="--advertise takes an IP address in braces"):
        advertised(given)
