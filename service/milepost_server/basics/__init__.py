"""The building blocks that all parts of the service use: problems, deadlines, turns of the event loop, streams, worker
processes.
"""
