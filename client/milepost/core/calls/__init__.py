"""One call to the service: its request, the replicas that receive it, and the meaning of an answer."""
