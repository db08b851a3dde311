"""An offer to speak another protocol is passed over, and the request is served as it stands (RFC 9110, section 7.8)."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pyspark
import pytest
from py4j.java_gateway import JavaGateway

from testbed.java import java
from testbed.server import ServerProcess
from tests.wire.support import raw
from tests.wire.support.api import Api, digest, problem

OFFER = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQCAAAAAAIAAAAA"}
BODIES: dict[str, tuple[dict[str, str], bytes, bytes]] = {
    "length": ({"Content-Length": "5"}, b"hello", b"hello"),
    "length zero": ({"Content-Length": "0"}, b"", b""),
    "chunked": ({"Transfer-Encoding": "chunked"}, b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", b"hello"),
    "chunked, empty": ({"Transfer-Encoding": "chunked"}, b"0\r\n\r\n", b""),
    "none": ({}, b"", b""),
    "large": ({"Content-Length": "300000"}, b"x" * 300_000, b"x" * 300_000),
}


@pytest.mark.parametrize("apart", [0, 1, 7], ids=["in one piece", "byte for byte", "in pieces"])
@pytest.mark.parametrize("offered", ["h2c", "websocket", "h2c, foo/2"])
@pytest.mark.parametrize(("framing", "sent", "content"), BODIES.values(), ids=BODIES)
def test_the_body_is_read_in_every_framing(
    api: Api, server: ServerProcess, framing: dict[str, str], sent: bytes, content: bytes, offered: str, apart: int
) -> None:
    headers = {**OFFER, "Upgrade": offered, "Milepost-Session": str(api.session), **framing}
    request = raw.head("POST", f"/v1/stores/{api.store}/handles/a", headers) + sent
    following = raw.head("GET", f"/v1/stores/{api.store}/handles/a", OFFER)
    if apart and len(sent) > 100:
        apart = 10_000
    with raw.connected(server.url) as connection:
        whole = request + following
        for at in range(0, len(whole), apart or len(whole)):
            connection.sendall(whole[at : at + (apart or len(whole))])
        added, shown = raw.answers(connection, "POST", "GET")
    assert added.status_code == 201, added.text
    assert (added.json()["size"], shown.json()) == (len(content), added.json())
    assert api.state("a").content == content


def test_many_offers_one_behind_the_other(server: ServerProcess) -> None:
    request = raw.head("GET", "/livez", OFFER)
    with raw.connected(server.url) as connection:
        connection.sendall(request * 500)
        assert [each.status_code for each in raw.answers(connection, *["GET"] * 500)] == [200] * 500


def test_a_body_that_is_cut_short_behind_an_offer(api: Api, server: ServerProcess) -> None:
    headers = {**OFFER, "Milepost-Session": str(api.session), "Content-Length": "5"}
    request = raw.head("POST", f"/v1/stores/{api.store}/handles/a", headers) + b"he"
    problem(raw.ask(server.url, request, half_close=True), 400, "incomplete-body")


def test_curl_that_offers_http_2(api: Api, server: ServerProcess) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("there is no curl")
    for name, framing in (("length", []), ("chunked", ["-H", "Transfer-Encoding: chunked"])):
        headers = ["-H", f"Milepost-Session: {api.session}", "-H", f"Content-Digest: {digest(b'hello')}", *framing]
        asked = [*headers, "--data-binary", "hello", f"{server.url}/v1/stores/{api.store}/handles/{name}"]
        command = [curl, "-sS", "--http2", "--max-time", "60", "--noproxy", "*", *asked]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=90, check=True)
        assert json.loads(ended.stdout)["size"] == 5, ended.stdout


def test_the_jdks_own_client(api: Api, server: ServerProcess) -> None:
    """Its default is to offer h2c with each request on plain HTTP; Spark's own Java takes part in the conversation."""
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    # The client's implementation lies in a package that reflection may not look into unless it is opened.
    opened = ["--add-opens", "java.net.http/jdk.internal.net.http=ALL-UNNAMED"]
    gateway = JavaGateway.launch_gateway(
        jarpath=str(jar), java_path=str(java()), javaopts=opened, die_on_exit=True, redirect_stderr=subprocess.DEVNULL
    )
    try:
        http, publishers = gateway.jvm.java.net.http, gateway.jvm.java.net.http.HttpRequest.BodyPublishers
        whole = publishers.ofString("hello")
        for name, body in {"length": whole, "chunked": publishers.fromPublisher(whole)}.items():
            uri = gateway.jvm.java.net.URI.create(f"{server.url}/v1/stores/{api.store}/handles/{name}")
            seconds = gateway.jvm.java.time.Duration.ofSeconds(60)
            asked = http.HttpRequest.newBuilder(uri).timeout(seconds).header("Milepost-Session", api.session)
            client = http.HttpClient.newHttpClient()
            answer = client.send(asked.POST(body).build(), http.HttpResponse.BodyHandlers.ofString())
            assert (answer.statusCode(), json.loads(answer.body())["size"]) == (201, 5), answer.body()
            assert api.state(name).content == b"hello"
    finally:
        gateway.shutdown()
