"""HTTP: routes, headers, problems, streaming. No rule lives here; docs/wire.md is what it must say."""
