"""The role of a replica: to stand in the election, to lead, and what a leader does besides answering."""
