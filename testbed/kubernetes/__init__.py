"""A Kubernetes API without nodes: etcd and kube-apiserver on this machine, and what its operator does there."""
