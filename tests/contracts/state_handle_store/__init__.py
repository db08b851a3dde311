"""The contract of the state handle store, written once and run over every way in and every pair of backends.

The scenarios are those that Flink's test classes hold its own two implementations to. Each test says in its docstring
which one it is (``ZooKeeper 17``, ``Kubernetes 4``); `test_numbers` checks that none is missing.
"""
