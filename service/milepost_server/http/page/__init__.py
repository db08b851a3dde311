"""The page at ``/``, which shows people the state of this replica and of the leader. It changes nothing."""
