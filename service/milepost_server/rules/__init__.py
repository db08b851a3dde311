"""The rules: ``decide(view, request, context)`` returns the changes and the answer, or the reason for a refusal.

They are pure functions over immutable records. No rule waits, reads a clock, or depends on a backend or on HTTP, so the
service, property-based tests and the simulator all run the same code.
"""
