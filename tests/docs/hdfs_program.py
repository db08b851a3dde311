"""Stands in for Hadoop's ``hdfs dfs``, of which the pages use ``-ls`` and ``-cat``: HdfsCLI asks in its place.

(Hadoop's own client is tried in tests/wire/webhdfs/clients.) Run as ``python hdfs_program.py dfs -ls URL``.
"""

from __future__ import annotations

import sys
from urllib.parse import urlsplit

from hdfs import InsecureClient


def main() -> None:
    """Do what the arguments say. What they may not say is an error, so that no line is run differently."""
    _, command, *options, address = sys.argv[1:]
    url = urlsplit(address)
    client = InsecureClient(f"http://{url.netloc}")
    if command == "-cat":
        with client.read(url.path) as reader:
            sys.stdout.buffer.write(reader.read())
    elif command == "-ls":
        assert options in ([], ["-R"])
        for directory, directories, files in client.walk(url.path, depth=0 if options else 1):
            print("\n".join(f"{directory}/{name}" for name in [*directories, *files]))
    else:
        sys.exit(f"{command}: this stand-in does not know it")


if __name__ == "__main__":
    main()
