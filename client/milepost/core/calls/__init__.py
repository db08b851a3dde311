"""One call to the service: its request, the replicas that are asked, and what an answer means."""
