"""Find out when a certificate ends, by showing it to ourselves: the ssl module reads only what a peer has shown."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

_NO_CHECK_TIME: Final = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME: a certificate that has ended, or has not begun, is read as well."""


def expiry(server: ssl.SSLContext, certificate: Path) -> float:
    """Return the Unix time at which the certificate ends that ``server`` shows, which is the first in the file.

    Raises `ssl.SSLError` where a client would not go on with it for another reason than its time.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.load_verify_locations(cafile=certificate)
    client.verify_flags = ssl.VerifyFlags(ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME)
    towards_server, towards_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(towards_client, towards_server)
    answering = server.wrap_bio(towards_server, towards_client, server_side=True)
    for side in (asking, answering, asking, answering, asking):  # TLS 1.2 takes all of them, TLS 1.3 three
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    shown = asking.getpeercert()
    assert shown is not None
    return float(ssl.cert_time_to_seconds(str(shown["notAfter"])))
