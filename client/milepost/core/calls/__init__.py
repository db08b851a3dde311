"""One call to the service: its request, the choice of a replica, the attempts, and the meaning of each answer."""
