"""Access to the service: authentication, the check of the header Host, the redirect to the leader, the access log."""
