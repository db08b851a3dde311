"""The console at ``/``: it shows people the jobs and the replicas, and changes what the token of its tab may change."""
