"""A Kubernetes cluster for the chart: the one that KUBECONFIG names, or the node that `testbed.node` builds."""
