"""The program ``milepost-server``, which reads its flags and the environment, and then serves."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import logging
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from milepost.wire import checked_cells
from milepost_backends.contract import BackendError
from milepost_server.basics.watched_files import WatchedFiles
from milepost_server.check import status_of, try_stores
from milepost_server.compose import ReplicaConfig, application, make_stores, open_replica, service_accounts
from milepost_server.http.access.hosts import Hosts
from milepost_server.http.access.log import AccessLog, LogLines
from milepost_server.http.access.token_file import watched_tokens
from milepost_server.http.access.tokens import Tokens
from milepost_server.http.cells.addresses import addresses_in
from milepost_server.http.connection.connections import Connections, room_for_connections
from milepost_server.http.tls.certificates import Certificates, TlsFiles
from milepost_server.journal import JournalSettings
from milepost_server.replica.settings import INLINE_BELOW, MOST_INLINE, Settings
from milepost_server.server import bound, run

log = logging.getLogger("milepost")

_LOG_LEVELS = ("debug", "info", "warning")
_LOSS_LENGTH = 8
_OURS = ("milepost", "milepost_server", "milepost_backends")

_ADDRESS = re.compile(r"\{([^{}]*)\}")


def parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """Return the parser of the command-line flags. An environment variable sets the default of each flag, such as
    ``MILEPOST_LISTEN`` that of ``--listen``.
    """

    def default(flag: str, fallback: str | None) -> str | None:
        return environment.get("MILEPOST_" + flag.upper().replace("-", "_"), fallback)

    flags = argparse.ArgumentParser(
        prog="milepost-server",
        description="Milepost records which checkpoint of a Spark job is the latest, and who may write the next one.",
        epilog="Each flag is also an environment variable: MILEPOST_LISTEN, MILEPOST_POINTERS, …",
    )
    flags.add_argument(
        "--listen", default=default("listen", "127.0.0.1:7070"), metavar="HOST:PORT", help="address to listen on"
    )
    flags.add_argument(
        "--advertise", default=default("advertise", None), metavar="URL", help="URL at which others reach this replica"
    )
    flags.add_argument(
        "--pointers",
        default=default("pointers", "embedded:./milepost-data"),
        metavar="URL",
        help="where records are kept:"
        " embedded:DIR, or zookeeper://host:port,host:port/path?session_timeout=4&credentials_file=, or"
        " zookeeper+tls:// with ca_file=&cert_file=&key_file=&verify=full|ca|none as well, or kubernetes://namespace/name"
        "?lease_duration=15&renew_deadline=10&retry_period=2&bytes_per_second=900000&most_bytes=67108864&pod=&kubeconfig=&context=;"
        " every option may be left out",
    )
    flags.add_argument(
        "--blobs",
        default=default("blobs", "file:./milepost-data/blobs"),
        metavar="URL",
        help="where the bytes of states are kept:"
        " file:DIR, or s3://bucket/prefix?endpoint_url=…&region=…&addressing_style=path|virtual, or"
        " hdfs://host:port/path or hdfs://nameservice/path?replication=",
    )
    flags.add_argument(
        "--token-file",
        default=default("token-file", None),
        metavar="FILE",
        help="file of bearer tokens, one on each line: name token [read-only | reader=PATTERN,… writer=PATTERN,…"
        " admin]; it is read again when it changes",
    )
    flags.add_argument(
        "--service-accounts",
        default=default("service-accounts", None),
        metavar="AUDIENCE",
        help="take tokens of Kubernetes ServiceAccounts made for this audience; the token file says which account may"
        " do what",
    )
    flags.add_argument(
        "--tls-cert",
        default=default("tls-cert", None),
        metavar="FILE",
        help="speak TLS, with the certificate in this file (PEM, those of authorities in between behind it); it is read"
        " again when it changes",
    )
    flags.add_argument(
        "--tls-key", default=default("tls-key", None), metavar="FILE", help="key of that certificate (PEM, no password)"
    )
    flags.add_argument(
        "--tls-client-ca",
        default=default("tls-client-ca", None),
        metavar="FILE",
        help="answer only health to clients that show no certificate of an authority in this file",
    )
    flags.add_argument(
        "--tls-ca",
        default=default("tls-ca", None),
        metavar="FILE",
        help="authorities of the certificates of the other replicas",
    )
    flags.add_argument(
        "--insecure",
        action="store_true",
        default=environment.get("MILEPOST_INSECURE", "") in ("1", "true"),
        help="allow to listen on other addresses than the loopback without authentication",
    )
    flags.add_argument(
        "--hosts",
        default=default("hosts", ""),
        metavar="NAME,NAME",
        help="without tokens: host names that requests may be addressed to, besides those of the loopback and the"
        " advertised one; * for any",
    )
    flags.add_argument(
        "--max-state-bytes", type=_positive, default=default("max-state-bytes", None), help="largest size of a state"
    )
    flags.add_argument(
        "--inline-below",
        type=_inline,
        default=default("inline-below", str(INLINE_BELOW)),
        metavar="BYTES",
        help=f"keep a state or a file with fewer bytes in its record, not as a blob; 0 to {MOST_INLINE}, 0 keeps none",
    )
    flags.add_argument(
        "--linger", type=_seconds, default=default("linger", "60"), help="seconds to keep a replaced blob"
    )
    flags.add_argument(
        "--collect-after",
        type=_seconds,
        default=default("collect-after", "3600"),
        help="age in seconds at which a blob that no record names is deleted",
    )
    flags.add_argument(
        "--epochs-above",
        type=_positive,
        default=default("epochs-above", None),
        help="grant only epochs above this number; for use after a restore from a backup",
    )
    flags.add_argument(
        "--cell",
        default=default("cell", ""),
        metavar="NAME",
        help="this deployment is the cell of this name, one of those that --cells names; a deployment keeps its name",
    )
    flags.add_argument(
        "--cells",
        default=default("cells", ""),
        metavar="NAME,NAME",
        help="the names of all cells, the same at each; a name may be added, but none is removed",
    )
    flags.add_argument(
        "--cell-addresses",
        default=default("cell-addresses", ""),
        metavar="LIST",
        help="addresses of all cells, as clients have them, by which the console shows all: a list, or @FILE, which is"
        " read again when it changes",
    )
    flags.add_argument(
        "--accept-loss",
        default=default("accept-loss", None),
        metavar="LOSS",
        help="start although stored records are lost: the name of the loss, as the log shows it; more than one with"
        " commas between",
    )
    flags.add_argument(
        "--log-level",
        default=default("log-level", "info"),
        choices=_LOG_LEVELS,
        help="debug shows more of Milepost itself, but not of its libraries, whose debug lines contain credentials",
    )
    flags.add_argument(
        "--check",
        action="store_true",
        help="try the stores, print a line of what was found for each, and end, with status 0 if all can be used, 2 for"
        " what is refused for good, or 75 if one gives no answer or has no room; it founds nothing, and a replica may"
        " serve meanwhile",
    )
    flags.add_argument("--version", action="version", version=f"%(prog)s {version('milepost-server-core')}")
    return flags


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the server: the entry point of ``milepost-server``. Exits with status 2 for wrong settings."""
    flags = parser(os.environ)
    given = flags.parse_args(arguments)
    # the level may come from an environment variable, as a default, and argparse does not check defaults
    if given.log_level not in _LOG_LEVELS:
        flags.error(f"--log-level takes one of {', '.join(_LOG_LEVELS)}, not {given.log_level!r}")
    _log_from(getattr(logging, given.log_level.upper()))
    try:
        host, port = _address(given.listen)
        tokens = _tokens(given)
        certificates = _certificates(given)
        serves_tls = certificates is not None and certificates.serve
        authenticates = tokens is not None or (certificates is not None and certificates.demanded)
        if not authenticates and not given.insecure and not _is_local(host):
            flags.error(
                f"refusing to listen on {host} without authentication: give --token-file, --tls-client-ca or --insecure"
            )
        if not given.advertise and _is_wildcard(host):
            flags.error(f"{host} is not an address that others can reach: give --advertise")
        for flag in ("pointers", "blobs", "advertise"):
            if _names_a_user(getattr(given, flag) or ""):
                flags.error(f"the URL of --{flag} has a user or a password in it, but is shown and logged: remove it")
        advertise = advertised(given.advertise or "") or f"http{'s' if serves_tls else ''}://{_bracketed(host)}:{port}"
        if not advertise.startswith(("http://", "https://")):
            raise ValueError(f"--advertise takes an http or https URL, not {advertise!r}")
        if serves_tls and not advertise.startswith("https://"):
            raise ValueError(f"with --tls-cert, --advertise takes an https URL, not {advertise!r}")
        losses = _losses(given.accept_loss or "")
        addresses = addresses_in(given.cell_addresses, given.cell)
        settings = Settings(
            linger_seconds=given.linger,
            collect_after_seconds=given.collect_after,
            max_state_bytes=given.max_state_bytes,
            inline_below=given.inline_below,
            journal=JournalSettings(
                epoch_floor=given.epochs_above or 0,
                accepted_losses=losses,
                cell=given.cell,
                cells=_cells(given.cell, given.cells),
            ),
        )
        deployment = ReplicaConfig(given.pointers, given.blobs, advertise, f"{host}:{port}", losses)
        accounts = service_accounts(deployment, given.service_accounts) if given.service_accounts else None
        if given.check:
            sys.exit(asyncio.run(_checked(replace(deployment, accepted_losses=frozenset()), settings)))
        # the port is bound first, so that the start fails at once if another process uses the port
        sockets = bound(host, port)
        replica = open_replica(deployment, settings)
        by = "https" if serves_tls else "http"
        log.info("listening on %s by %s, pointers %s, blobs %s", given.listen, by, given.pointers, given.blobs)
        with ExitStack() as running:
            logged = log.isEnabledFor(logging.INFO)
            access = running.enter_context(AccessLog(sys.stderr)) if logged else None
            connections = Connections(room_for_connections())
            hosts = Hosts(advertise, given.hosts.split(","), any_address=not _is_local(host))
            app = application(
                deployment,
                replica,
                tokens or Tokens(),
                access,
                connections,
                hosts,
                certificates,
                accounts,
                given.service_accounts or "",
                addresses,
            )
            watched = [each for each in (tokens, addresses.file) if each is not None]
            run(app, replica, sockets, certificates, watched, accounts)
    except (ValueError, OSError, BackendError) as error:
        flags.exit(2, f"{flags.prog}: {error}\n")


async def _checked(deployment: ReplicaConfig, settings: Settings) -> int:
    """Run ``--check``: try the pointer store, the election and the blob store of a deployment, print the finding for
    each, and return the exit status.
    """
    findings = []
    async for finding in try_stores(*make_stores(deployment, settings)):
        findings.append(finding)
        print(finding, flush=True)
    if any(finding.overran for finding in findings):
        # skip the normal exit of Python: it would wait for a thread that may still wait for a store
        os._exit(status_of(findings))
    return status_of(findings)


def _log_from(level: int) -> None:
    """Log messages of ``level`` and above to stderr. Debug messages of libraries are never shown, since they contain
    credentials and signed URLs.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogLines("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=max(level, logging.INFO), handlers=[handler])
    logging.getLogger("milepost.audit").setLevel(logging.INFO)  # the audit log is shown at every log level
    logging.getLogger("httpx").setLevel(logging.WARNING)  # httpx logs signed URLs in its lines about requests
    if level < logging.INFO:
        for name in _OURS:
            logging.getLogger(name).setLevel(level)


def _tokens(given: argparse.Namespace) -> WatchedFiles[Tokens] | None:
    """Read the file that ``--token-file`` names, with the clients' tokens; None without the flag. Raises ValueError."""
    if given.service_accounts and not given.token_file:
        raise ValueError("--service-accounts needs --token-file, whose lines say what each account may do")
    if not given.token_file:
        return None
    try:
        return watched_tokens(Path(given.token_file), accounts=bool(given.service_accounts))
    except OSError as error:
        raise ValueError(f"--token-file: cannot read {given.token_file}: {error.strerror or error}") from error


def _certificates(given: argparse.Namespace) -> Certificates | None:
    """Read the certificates that the TLS flags name; None without such flags. Raises ValueError."""
    if bool(given.tls_cert) != bool(given.tls_key):
        raise ValueError("--tls-cert and --tls-key are given together, or neither is")
    if given.tls_client_ca and not given.tls_cert:
        raise ValueError("--tls-client-ca needs --tls-cert and --tls-key: without TLS no client shows a certificate")
    named = (given.tls_cert, given.tls_key, given.tls_client_ca, given.tls_ca)
    files = TlsFiles(*(Path(file) if file else None for file in named))
    return Certificates(files) if files.all else None


def _address(listen: str) -> tuple[str, int]:
    host, separator, port = listen.rpartition(":")
    if not separator or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"--listen takes HOST:PORT, not {listen!r}")
    return host.strip("[]") or "0.0.0.0", int(port)


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _names_a_user(url: str) -> bool:
    _, separator, rest = url.partition("://")
    return bool(separator) and "@" in rest.partition("/")[0]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _cells(cell: str, given: str) -> tuple[str, ...]:
    """Return the names of all cells, sorted. Raises ValueError if they cannot be used, or ``cell`` is none of them."""
    names = checked_cells(filter(None, (name.strip() for name in given.split(","))))
    if (cell or names) and cell not in names:
        raise ValueError(f"--cells names all cells, and --cell is one of them: {given[:200]!r}, {cell[:60]!r}")
    return names


def _losses(given: str) -> frozenset[str]:
    losses = frozenset(filter(None, (loss.strip() for loss in given.split(","))))
    for loss in losses:
        if len(loss) != _LOSS_LENGTH or set(loss) - set("0123456789abcdef"):
            raise ValueError(f"--accept-loss takes names of losses as the log shows them, not {loss!r}")
    return losses


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 10**9:
        raise argparse.ArgumentTypeError(f"takes a number of seconds, 0 or more, not {value!r}")
    return seconds


def _inline(value: str) -> int:
    number = _whole(value)
    if number is None or not 0 <= number <= MOST_INLINE:
        raise argparse.ArgumentTypeError(f"takes a number of bytes from 0 to {MOST_INLINE}, not {value!r}")
    return number


def _positive(value: str) -> int:
    number = _whole(value)
    if number is None or number < 1:
        raise argparse.ArgumentTypeError(f"takes a whole number, 1 or more, not {value!r}")
    return number


def _whole(value: str) -> int | None:
    try:
        return int(value)
    except ValueError:
        return None


def advertised(url: str) -> str:
    """Return ``url`` with each ``{ADDRESS}`` written as in the DNS names of Pods: ``{10.1.2.3}`` becomes ``10-1-2-3``.

    A Pod knows its address, but none of its names, which the cluster's DNS derives from the address in this way. Raises
    ValueError if the text in braces is not an address.
    """
    return _ADDRESS.sub(_with_dashes, url)


def _with_dashes(found: re.Match[str]) -> str:
    try:
        address = ipaddress.ip_address(found[1])
    except ValueError:
        raise ValueError(f"--advertise takes an IP address in braces, not {found[0]!r}") from None
    return str(address).replace(".", "-").replace(":", "-")


if __name__ == "__main__":
    main()
