"""Tell the leader, again and again, that this replica is a data node."""

from __future__ import annotations

import asyncio
import logging

from milepost.errors import Problem
from milepost_server.http.webhdfs.datanode.messages import Heartbeat
from milepost_server.http.webhdfs.datanode.peer import NoAnswer, NotReached, Peer
from milepost_server.journal import Journal
from milepost_server.replica.leader_locator import LeaderLocator

log = logging.getLogger("milepost.datanodes")

INTERVAL_SECONDS = 2.0
"""How often a replica says that it is there. Its silence means that it is not."""

_ANSWER_SECONDS = 2.0
_LEAVE_SECONDS = 1.0


async def announce(journal: Journal, leader_locator: LeaderLocator, peer: Peer) -> None:
    """Say it while another replica leads, until cancelled; then say, once, that this one leaves.

    So a replica is a data node only if it can reach the leader, which is what it will need to publish.
    """
    heartbeat = Heartbeat(leader_locator.advertise)
    said_to, failed = "", ""
    async with peer:
        try:
            while True:
                if not journal.lease_holds() and (leader := await leader_locator.elsewhere()) is not None:
                    try:
                        await peer.heartbeat(leader.rstrip("/"), heartbeat, _ANSWER_SECONDS)
                        said_to, failed = leader, ""
                    except (NotReached, NoAnswer, Problem) as error:
                        if leader != failed:  # once, not every two seconds
                            log.info("cannot tell %s that this replica takes and gives bytes too: %s", leader, error)
                        failed = leader
                await asyncio.sleep(INTERVAL_SECONDS)
        finally:
            if said_to:
                await _leave(peer, said_to, heartbeat)


async def _leave(peer: Peer, leader: str, heartbeat: Heartbeat) -> None:
    try:
        await peer.heartbeat(leader.rstrip("/"), Heartbeat(heartbeat.url, leaving=True), _LEAVE_SECONDS)
    except (NotReached, NoAnswer, Problem) as error:
        log.info("%s could not be told that this replica leaves; it notices by itself: %s", leader, error)
