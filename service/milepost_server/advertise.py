"""Work out the URL at which others reach this replica, from what ``--advertise`` says."""

from __future__ import annotations

import ipaddress
import re

_ADDRESS = re.compile(r"\{([^{}]*)\}")


def advertised(url: str) -> str:
    """Return ``url`` with each ``{ADDRESS}`` written as the names of Pods have it: ``{10.1.2.3}`` becomes ``10-1-2-3``.

    A Pod knows its address, but none of its names: the DNS of a cluster makes them of the address like this. Raises
    ValueError for what is no address in braces.
    """
    return _ADDRESS.sub(_with_dashes, url)


def _with_dashes(found: re.Match[str]) -> str:
    try:
        address = ipaddress.ip_address(found[1])
    except ValueError:
        raise ValueError(f"--advertise takes an IP address in braces, not {found[0]!r}") from None
    return str(address).replace(".", "-").replace(":", "-")
