"""The HTTP interface: routes, headers, problems, streams. It holds no rules; docs/wire.md says how it must behave."""
