"""Stands in for curl(1) where there is none: what the pages' lines use of it, by the standard library alone.

Run as ``python curl.py`` with curl's own arguments.
"""

from __future__ import annotations

import argparse
import http.client
import sys
from urllib.parse import urlsplit

DEADLINE_SECONDS = 60.0
MOST_REDIRECTS = 5


def arguments() -> argparse.Namespace:
    """Flags that it does not know are an error, so that no line of a page is run differently than curl would."""
    parser = argparse.ArgumentParser(prog="curl", allow_abbrev=False)
    for flag in ("-L", "-s", "-S"):
        parser.add_argument(flag, action="store_true", required=True)
    parser.add_argument("--fail-with-body", dest="fails", action="store_true")
    parser.add_argument("-w", dest="behind", default="", choices=["\\n"])
    parser.add_argument("-X", dest="method")
    parser.add_argument("-I", dest="head", action="store_true")
    parser.add_argument("-H", dest="headers", action="append", default=[])
    parser.add_argument("-d", "--data-binary", dest="data")
    parser.add_argument("url")
    return parser.parse_args()


def main() -> int:
    """Print the answer's body, or the heads on the way to it for ``-I``; fail as ``--fail-with-body`` does."""
    given, location = arguments(), ""
    for _ in range(MOST_REDIRECTS):
        response = asked(given, location or given.url)
        if given.head:
            lines = [f"HTTP/1.1 {response.status}", *(f"{name}: {value}" for name, value in response.getheaders()), ""]
            sys.stdout.write("".join(f"{line}\r\n" for line in lines))
        location = response.getheader("Location", "") if response.status == 307 else ""
        if not location:
            break
    sys.stdout.buffer.write(response.read() + (b"\n" if given.behind else b""))
    if response.status >= 400 and given.fails:
        print(f"curl: (22) The requested URL returned error: {response.status}", file=sys.stderr)
        return 22
    return 0


def asked(given: argparse.Namespace, address: str) -> http.client.HTTPResponse:
    """The answer of one server. At 307 method, headers and body stay as they are."""
    url = urlsplit(address)
    target = url.path + (f"?{url.query}" if url.query else "")
    method = given.method or ("HEAD" if given.head else "GET" if given.data is None else "POST")
    headers = dict(tuple(part.strip() for part in header.split(":", 1)) for header in given.headers)
    connection = http.client.HTTPConnection(url.netloc, timeout=DEADLINE_SECONDS)
    connection.request(method, target, None if given.data is None else given.data.encode(), headers)
    return connection.getresponse()


if __name__ == "__main__":
    sys.exit(main())
