"""The Kubernetes backend: pointers in ConfigMaps, an election on a Lease, and the accounts of ServiceAccount tokens."""

from milepost_backends.contract import Accounts, Backend, Election, PointersSettings, PointerStore


def _pointers(url: str, settings: PointersSettings) -> tuple[PointerStore, Election]:
    from milepost_backends.kubernetes.address import KubernetesAddress
    from milepost_backends.kubernetes.election.election import KubernetesElection
    from milepost_backends.kubernetes.pointers.store import KubernetesPointers

    address = KubernetesAddress.parse(url)
    return (
        KubernetesPointers(address, accept_loss=settings.accept_loss),
        KubernetesElection(address, settings.advertise),
    )


def _accounts(url: str, audience: str) -> Accounts:
    from milepost_backends.kubernetes.accounts import ServiceAccounts
    from milepost_backends.kubernetes.address import KubernetesAddress

    return ServiceAccounts(KubernetesAddress.parse(url), audience)


BACKEND = Backend("kubernetes://namespace/name", pointers=_pointers, accounts=_accounts)
