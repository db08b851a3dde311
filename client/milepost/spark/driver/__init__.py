"""The driver around a query: it stands by, watches the JVM, and stops in order."""
