"""The building blocks that all parts of the service use: problems, deadlines, shares of the event loop, streams."""
