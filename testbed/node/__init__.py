"""A real Kubernetes node on this machine, in a network of its own: Pods run, Services lead to them, DNS names them.

It needs root, and programs that ``tools/node-packages`` and ``tools/kubernetes/build`` bring. There is one node and no
load balancer, and a NetworkPolicy is accepted but not enforced.
"""
