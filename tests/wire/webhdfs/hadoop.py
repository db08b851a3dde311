"""WebHDFS as Hadoop's client speaks it: two requests for bytes, one for all else, the epoch in the name of a header."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import httpx

Json = dict[str, Any]


@dataclass(frozen=True)
class Tree:
    """The tree of a job, as one who has its epoch sees it. Every call gives httpx's response as it came."""

    http: httpx.Client
    job: str
    epoch: int | None = None
    token: str | None = None

    def under(self, epoch: int | None) -> Tree:
        """The same tree under another epoch; None: without the header."""
        return replace(self, epoch=epoch)

    def ask(
        self, method: str, path: str, op: str, *, headers: dict[str, str] | None = None, **query: Any
    ) -> httpx.Response:
        """One request, which is sent on by nobody."""
        url = f"/webhdfs/v1/jobs/{self.job}/{path}"
        return self.http.request(method, url, params={"op": op, **query}, headers={**self.told(), **(headers or {})})

    def create(self, path: str, content: bytes = b"", *, overwrite: bool = False) -> httpx.Response:
        """Put a file: the answer to the first request unless it is a redirect, else that to the second."""
        first = self.ask("PUT", path, "CREATE", overwrite=str(overwrite).lower())
        return first if first.status_code != 307 else self.send(first.headers["location"], content)

    def send(self, location: str, content: bytes) -> httpx.Response:
        """Send the bytes, in chunks and without a length, as Hadoop's client does."""
        return self.http.put(location, content=_chunks(content), headers=self.told())

    def told(self) -> dict[str, str]:
        """The headers that each request has, also at a redirect's target."""
        epoch = {} if self.epoch is None else {f"X-Milepost-{self.job}-{self.epoch}": "x"}
        return epoch if self.token is None else {**epoch, "Authorization": f"Bearer {self.token}"}

    def read(self, path: str, offset: int = 0, **query: Any) -> httpx.Response:
        """Get the bytes from an offset on."""
        first = self.ask("GET", path, "OPEN", offset=offset, **query)
        return first if first.status_code != 307 else self.http.get(first.headers["location"], headers=self.told())

    def rename(self, source: str, target: str, options: str | None = "NONE") -> httpx.Response:
        """Rename; without options it is Hadoop's first rename, which answers with a boolean."""
        query: Json = {"destination": f"/jobs/{self.job}/{target}"}
        if options is not None:
            query["renameoptions"] = options
        return self.ask("PUT", source, "RENAME", **query)

    def mkdirs(self, path: str) -> httpx.Response:
        """Make a directory."""
        return self.ask("PUT", path, "MKDIRS")

    def delete(self, path: str, *, recursive: bool = False) -> httpx.Response:
        """Delete a file or a directory."""
        return self.ask("DELETE", path, "DELETE", recursive=str(recursive).lower())

    def status(self, path: str) -> Json:
        """What is there."""
        return dict(self.ask("GET", path, "GETFILESTATUS").json()["FileStatus"])

    def names(self, path: str = "") -> list[str]:
        """What is in a directory."""
        answer = self.ask("GET", path, "LISTSTATUS").json()
        return [status["pathSuffix"] for status in answer["FileStatuses"]["FileStatus"]]


def refused(response: httpx.Response, status: int, exception: str) -> str:
    """The message of a refusal, which must be this exception of Java's, and have no Content-Type."""
    assert response.status_code == status, response.text
    assert "content-type" not in response.headers
    told = response.json()["RemoteException"]
    assert told["javaClassName"].rpartition(".")[2] == told["exception"] == exception, told
    return str(told["message"])


def _chunks(content: bytes, size: int = 65536) -> Iterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]
