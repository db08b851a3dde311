"""TLS in the server: certificates, which are read again when their files change, and the encryption of connections."""
