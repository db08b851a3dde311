"""The driver around a query: standing by, watching the JVM, stopping in order."""
