"""TLS in the server: its certificates, which are read again when they change, and the encryption of a connection."""
