"""The ZooKeeper backend: pointers and an election in one ZooKeeper ensemble, under one address."""

from milepost_backends.contract import Backend, Election, PointersSettings, PointerStore


def _pointers(url: str, settings: PointersSettings) -> tuple[PointerStore, Election]:
    from milepost_backends.zookeeper.address import ZooKeeperAddress
    from milepost_backends.zookeeper.election.election import ZooKeeperElection
    from milepost_backends.zookeeper.pointers.store import ZooKeeperPointers

    address = ZooKeeperAddress.parse(url)
    return (
        ZooKeeperPointers(address, accept_loss=settings.accept_loss),
        ZooKeeperElection(address, settings.advertise),
    )


BACKEND = Backend("zookeeper://h1,h2/path", pointers=_pointers)
