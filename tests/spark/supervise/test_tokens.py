"""``milepost run`` over TLS, on a service with tokens: a job has a credential for its own files, which nobody sees."""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
import trustme

import milepost
from testbed.server import ServerProcess
from tests.spark.supervise.sums import Sums
from tests.spark.supervise.supervised import Supervised
from tests.spark.tls import TOKEN, address, behind_tls, token_flags, trust_store, trusting
from tests.wire.webhdfs.hadoop import Tree, refused

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

_CREDENTIAL = re.compile(r'"-Dspark\.hadoop\.dfs\.webhdfs\.oauth2\.credential=([^"]+)"')


def shown_by(leader: int) -> bytes:
    """What the processes of a group show of themselves: their commands and their environments."""
    found = b""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(ProcessLookupError, FileNotFoundError):  # some are short
            if os.getpgid(int(process.name)) == leader:
                found += (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
    return found


def secret_of(run: Supervised, start: int) -> str:
    """The credential of a start, as its JVM finds it. A process that has just been made is not yet what it will run."""
    _, process = run.starts()[start]

    def options() -> list[bytes]:
        return re.findall(rb'JDK_JAVA_OPTIONS="@([^"\0]+)"', Path(f"/proc/{process}/environ").read_bytes())

    run.until(options)
    file = Path(os.fsdecode(options()[0]))
    assert file.stat().st_mode & 0o077 == file.parent.stat().st_mode & 0o077 == 0
    (secret,) = _CREDENTIAL.findall(file.read_text())
    return str(secret)


def test_a_job_runs_with_a_credential_that_ends_with_its_epoch(
    java_options: str, jar: Path, name: str, sums: Sums, tmp_path: Path
) -> None:
    authority, events = trustme.CA(), tmp_path / "events"
    events.mkdir()
    trusted = [f"-D{key}={value}" for key, value in trust_store(authority, tmp_path / "trusted.p12").items()]
    settings = {"spark.eventLog.enabled": "true", "spark.eventLog.compress": "false", "spark.eventLog.dir": str(events)}
    job = sums.command(" ".join([java_options, *trusted]), jar, 6, 300, {**settings, "spark.logConf": "true"})
    known = authority.cert_pem.tempfile()
    with (
        behind_tls(authority, tmp_path, *token_flags(tmp_path)) as server,
        known as certificate,
        Supervised(
            address(server), name, tmp_path / "log", [], job, MILEPOST_TOKEN=TOKEN, SSL_CERT_FILE=certificate
        ) as run,
    ):
        run.until(lambda: sums.entered(2))
        secrets = [secret_of(run, 0)]
        shown = shown_by(run.starts()[0][1])
        assert b"org.apache.spark.deploy.SparkSubmit" in shown
        assert b"MILEPOST_CHECKPOINT_LOCATION" in shown
        run.send_command(signal.SIGKILL)
        run.until(lambda: len(run.starts()) == 2)
        secrets.append(secret_of(run, 1))
        assert run.ended() == 0, run.log()[-6000:]
        assert [epoch for epoch, _ in run.starts()] == [1, 2]
        sums.check(6)

        logged = "".join(path.read_text() for path in events.rglob("*") if path.is_file())
        assert "dfs.webhdfs.oauth2.client.id" in logged
        told = "\n".join([logged, run.log(), server.logged(), shown.decode()])
        assert len({*secrets, TOKEN}) == 3
        assert [secret for secret in (*secrets, TOKEN) if secret in told] == []

        with httpx.Client(base_url=address(server), verify=trusting(authority), timeout=60.0) as http:

            def tree(epoch: int) -> Tree:
                form = {"client_id": f"{name}-{epoch}", "client_secret": secrets[epoch - 1]}
                answer = http.post("/oauth2/token", data={"grant_type": "client_credentials", **form})
                return Tree(http, name, None, answer.json()["access_token"])

            assert tree(1).names("checkpoint/queries") == ["distinct", "sums"]
            with milepost.Client(address(server), token=TOKEN, verify=trusting(authority)) as client:
                client.session("next").store(name).campaign()
            for epoch in (1, 2):
                refused(tree(epoch).mkdirs("checkpoint/late"), 403, "AccessControlException")


def test_a_service_that_wants_a_token_and_gets_none(name: str, tmp_path: Path) -> None:
    with ServerProcess(tmp_path, *token_flags(tmp_path)) as server:
        server.start()
        with Supervised(server.url, name, tmp_path / "log", [], ["true"]) as run:
            assert run.ended() == 125
            assert "AccessDenied" in run.log()
            assert run.starts() == []
        with milepost.Client(server.url, token=TOKEN) as client:
            assert client.store(name).current_epoch().epoch == 0
