"""The URL of a job's checkpoint location, and the Hadoop settings with which Spark reaches it.

Hadoop's own WebHDFS client, which Spark ships with, takes all these settings from the Spark session.
docs/decisions/0045 explains the purpose of each setting, and what goes wrong without it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from milepost.core.calls.replicas import why_unusable
from milepost.types import FileCredential
from milepost.wire import job_epoch_header

NAME_SERVICE: Final = "milepost"
"""The authority of checkpoint locations that several replicas serve."""
NAME_SERVICES: Final = "dfs.nameservices"
"""The setting that lists all name services that a session knows, including those that are not Milepost's."""
HEADER: Final = "dfs.webhdfs.rest-csrf.custom-header"
CREDENTIAL: Final = "dfs.webhdfs.oauth2.credential"
"""The setting that holds the client secret. Spark does not recognize its name as that of a secret, so code that sets it
must also redact it in Spark's reports.
"""

_TOKEN_PROVIDER: Final = "org.apache.hadoop.hdfs.web.oauth2.ConfCredentialBasedAccessTokenProvider"
_PROVIDER: Final = "org.apache.hadoop.hdfs.server.namenode.ha.IPFailoverProxyProvider"
"""WebHDFS requires a failover provider, but does not use it. For ``hdfs:`` URLs this provider connects to the host
itself, where a NameNode may run.
"""
_SCHEMES: Final = {"http": "webhdfs", "https": "swebhdfs"}
_PORTS: Final = {"http": 80, "https": 443}
_PORT: Final = re.compile(r":\d+\Z")
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_NAME: Final = re.compile(rf"(?:{_LABEL}|(?:{_LABEL}\.)+(?![0-9]){_LABEL})\.?")
"""The host names that Java accepts: without underscores, and the last of several labels begins with a letter."""
_HOST_AND_PORT: Final = re.compile(r"(?:\[(?P<v6>[^][]+)\]|(?P<host>[^][:]+))(?::(?P<port>[0-9]{1,5}))?")


@dataclass(frozen=True)
class CheckpointLocation:
    """The location of a job's files: ``url``, and the ``settings`` of Hadoop with which the job writes them under its
    epoch.

    The settings belong in the configuration of the Spark *session*, before a query starts: executors get them with the
    query, and the query keeps them. In the Hadoop configuration, which all sessions of an application share, the
    settings of two jobs would mix. ``fence`` contains those settings that carry the epoch or separate one job from
    another. Name services of the session's own must be added to the value of the setting `NAME_SERVICES`.
    """

    url: str
    settings: Mapping[str, str] = field(repr=False)
    fence: Mapping[str, str]


def checkpoint_location(
    urls: Sequence[str],
    store: str,
    epoch: int,
    *,
    authority: str | None = None,
    credential: FileCredential | None = None,
    token_url: str | None = None,
) -> CheckpointLocation:
    """Return the checkpoint location of the job ``store`` for the driver with this epoch.

    ``urls`` are the addresses of the service. Spark writes absolute paths into a checkpoint, so ``authority`` must stay
    the same for the life of the job; a new job takes `default_authority`. An authority that is not the address of the
    only server becomes a name service; if it has a port, Hadoop looks it up by the host alone. So the authority stays
    when one server becomes several, or moves. Raises ValueError for an authority that Hadoop cannot use, and for
    addresses with which Hadoop cannot reach files: addresses of two schemes, or with a path.

    ``credential`` is the service's credential for that epoch, if the service uses tokens
    (`StateHandleStore.file_credential`). Each of Hadoop's file system objects gets a token with it, at ``token_url``:
    Hadoop knows a single address for that, by default the first of ``urls``. If ``token_url`` is the address of a
    server, the credential's path is appended. The settings then contain a secret.
    """
    scheme = _scheme(urls)
    places = [_usable(_place(url), "an address of the service") for url in urls]
    host = _usable(authority or default_authority(urls), "the authority of a checkpoint location")
    fence = _fence(scheme, store, epoch)
    settings = fence | (_LONE if places == [host] else _name_service(scheme, host, places))
    if credential is not None:
        settings |= _tokens(credential, _with_path(token_url or urls[0], credential.token_path))
    return CheckpointLocation(f"{scheme}://{host}/jobs/{store}/checkpoint", settings, fence)


def default_authority(urls: Sequence[str]) -> str:
    """Return the authority of a new job: a name service for several replicas, and host and port for one."""
    return NAME_SERVICE if len(urls) > 1 else _place(urls[0])


def _place(url: str) -> str:
    """Return ``host:port`` of the URL of a replica. A URL without a port gets the default port of its scheme, since
    Hadoop would use the default port of a NameNode.
    """
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return host if parts.port is not None or host.endswith(":") else f"{host}:{_PORTS.get(parts.scheme, 80)}"


def _usable(authority: str, what: str) -> str:
    """Return ``authority``, a host with an optional port, if Java's URI parser finds a host in it. Raises ValueError
    otherwise; ``what`` names it in the message.
    """
    parts = _HOST_AND_PORT.fullmatch(authority)
    if parts is None or not _is_host(parts["host"], parts["v6"]) or not 0 < int(parts["port"] or 1) < 65536:
        raise ValueError(
            f"{authority!r} cannot be {what}, because Hadoop finds no host in it: it takes a name of letters, digits, "
            "'-' and '.', or an IP address, and maybe ':' and a port"
        )
    return authority


def _is_host(host: str | None, v6: str | None) -> bool:
    if host is not None and _NAME.fullmatch(host):
        return True
    try:
        return ip_address(host or v6 or "").version == (4 if host is not None else 6)
    except ValueError:
        return False


def _with_path(url: str, path: str) -> str:
    return url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}{path}"


def _scheme(urls: Sequence[str]) -> str:
    for url in urls:
        if urlsplit(url).scheme not in _SCHEMES:
            raise ValueError(why_unusable(url))
    schemes = {urlsplit(url).scheme for url in urls}
    if len(schemes) != 1:
        raise ValueError(f"all addresses of the service must begin with http, or all with https: {', '.join(urls)}")
    for url in urls:
        if path := urlsplit(url).path.strip("/"):
            raise ValueError(
                f"the address {_place(url)}/{path} has a path, and Hadoop finds files only at the root of an address: "
                "name the service by a host of its own"
            )
    return _SCHEMES[schemes.pop()]


def _fence(scheme: str, store: str, epoch: int) -> dict[str, str]:
    return {
        f"fs.{scheme}.impl.disable.cache": "true",
        "dfs.webhdfs.rest-csrf.enabled": "true",
        HEADER: job_epoch_header(store, epoch),
        "dfs.webhdfs.rest-csrf.methods-to-ignore": "NONE",
    }


def _tokens(credential: FileCredential, url: str) -> dict[str, str]:
    return {
        "dfs.webhdfs.oauth2.enabled": "true",
        "dfs.webhdfs.oauth2.access.token.provider": _TOKEN_PROVIDER,
        "dfs.webhdfs.oauth2.refresh.url": url,
        "dfs.webhdfs.oauth2.client.id": credential.client_id,
        CREDENTIAL: credential.client_secret,
    }


_LONE: Final = {"dfs.http.client.retry.policy.enabled": "true", "dfs.http.client.retry.policy.spec": "500,240"}
"""The settings for a single server: Hadoop waits two minutes for a server that restarts, retrying every half second.

Hadoop would not wait for a name service with a single server (docs/decisions/0087).
"""


def _name_service(scheme: str, authority: str, places: Sequence[str]) -> dict[str, str]:
    service = _PORT.sub("", authority)
    replicas = {f"r{number}": place for number, place in enumerate(places, 1)}
    address = "dfs.namenode.http-address" if scheme == "webhdfs" else "dfs.namenode.https-address"
    return {
        NAME_SERVICES: service,
        f"dfs.ha.namenodes.{service}": ",".join(replicas),
        **{f"{address}.{service}.{replica}": place for replica, place in replicas.items()},
        f"dfs.client.failover.proxy.provider.{service}": _PROVIDER,
        "dfs.http.client.failover.sleep.base.millis": "200",
        "dfs.http.client.failover.sleep.max.millis": "1000",
        "dfs.http.client.failover.max.attempts": "60",
        "dfs.http.client.retry.max.attempts": "40",
    }
