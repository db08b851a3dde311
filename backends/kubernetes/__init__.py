"""The Kubernetes backend keeps pointers in ConfigMaps and holds an election on a Lease, with one address for both."""

from backends.contract import Backend, Election, PointersSettings, PointerStore


def _pointers(url: str, settings: PointersSettings) -> tuple[PointerStore, Election]:
    from backends.kubernetes.address import KubernetesAddress
    from backends.kubernetes.election.election import KubernetesElection
    from backends.kubernetes.pointers.store import KubernetesPointers

    address = KubernetesAddress.parse(url)
    return (
        KubernetesPointers(address, accept_loss=settings.accept_loss),
        KubernetesElection(address, settings.advertise),
    )


BACKEND = Backend("kubernetes://namespace/name", pointers=_pointers)
