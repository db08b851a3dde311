"""Who may come in, who is sent on to the leader, and what the access log says of it."""
