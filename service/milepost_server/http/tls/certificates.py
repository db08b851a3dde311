"""Keep the certificates of a replica, and take up new ones when their files change."""

from __future__ import annotations

import logging
import ssl
from functools import partial

from milepost_server.basics.watched_files import WatchedFiles
from milepost_server.http.access import audit
from milepost_server.http.tls.files import Contexts, TlsFiles, read

log = logging.getLogger("milepost.tls")


class Certificates:
    """The certificates that are in use. A connection keeps those with which it began.

    Files that cannot be used any more are logged, and those which were read before stay in use.
    """

    def __init__(self, files: TlsFiles) -> None:
        """Read the files. Raises ValueError if they cannot be used."""
        self._files = files
        self.watched = WatchedFiles(files.all, partial(read, files), "certificates", log, self._changed)

    @property
    def serve(self) -> bool:
        """Whether this replica has a certificate, and so speaks TLS to its clients."""
        return self._files.certificate is not None

    @property
    def demanded(self) -> bool:
        """Whether clients have to show a certificate."""
        return self._files.client_ca is not None

    @property
    def expires(self) -> float | None:
        """The Unix time at which the certificate in use ends; None without one."""
        return self.watched.now.expires

    def for_clients(self) -> ssl.SSLContext:
        """Return what the next connection of a client is encrypted with."""
        contexts = self.watched.now
        assert contexts.clients is not None
        return contexts.clients

    def for_replicas(self) -> ssl.SSLContext:
        """Return what the next connection to another replica is encrypted with."""
        return self.watched.now.replicas

    def _changed(self, _old: Contexts, _new: Contexts) -> None:
        files = ", ".join(map(str, self._files.all))
        log.info("read the new certificates in %s; the next connections use them", files)
        audit.note("read-certificates", files)
