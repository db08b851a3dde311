"""``make demo``: a streaming job loses its driver twice, once frozen and once killed, with Milepost and without it.

To copy: `demo.spark.driver`, a Spark driver under Milepost. Beside it `demo.spark.plain_driver`, the same without. The
rest starts both, breaks them at the same places, and compares what they published with what they were given.
"""
