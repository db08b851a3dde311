"""WebHDFS: Hadoop's file system over HTTP, answered from the trees of stores.

The store ``flights`` is the directory ``/jobs/flights``. What Hadoop's own client sends, and how it reacts to answers,
was measured with Spark 4.3 and Hadoop 3.5 (docs/decisions/0045).
"""
