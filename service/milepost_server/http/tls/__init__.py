"""TLS in the server: its certificates, which are read again when their files change, and the encryption of a
connection.
"""
