"""WebHDFS: Hadoop's file system over HTTP, answered from the trees of stores.

The store ``flights`` is the directory ``/jobs/flights``. The requests of Hadoop's own client, and its reactions to
answers, were measured with Spark 4.3 and Hadoop 3.5 (docs/decisions/0045).
"""
