"""The page at ``/``, which shows people what this replica and the leader know. It changes nothing."""
