"""HTTP: routes, headers, problems, streaming. No rule lives here; WIRE version 1 is what it must say."""
