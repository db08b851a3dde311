"""``make demo-kube``: the demo on a real Kubernetes cluster."""
