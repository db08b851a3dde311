"""``make demo-cluster``: the demo with a jar that knows nothing of Milepost, on a cluster that has no common disk.

To copy: the command of `demo.cluster.drivers.supervised`, which is ``milepost run --standby -- spark-submit …``.
"""
