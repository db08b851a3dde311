"""The building blocks that all parts of the service use: problems, deadlines, turns on the event loop, streams."""
