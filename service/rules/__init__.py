"""The rules: ``decide(view, request, context)`` says what changes and what is answered, or why not.

Pure functions over immutable records. Nothing here waits, reads a clock, or knows of a backend or of HTTP, so the
same code is driven by the service, by property-based tests and by the simulator.
"""
