"""The rules: ``decide(view, request, context)`` returns what changes and what is answered, or why not.

They are pure functions over immutable records. Nothing here waits, reads a clock, or knows of a backend or of HTTP, so
the same code is driven by the service, by property-based tests and by the simulator.
"""
