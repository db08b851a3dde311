"""The four guarantees of watches over real fail-overs: ``make test-watches``, and a small round in the long tests."""
