"""The HTTP interface: routes, headers, problems, streams. It makes no decisions of its own; docs/wire.md specifies
it.
"""
