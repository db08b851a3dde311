"""The SDK without its input and output.

Every operation is a generator: it yields effects (`Send`, `Sleep`, …), is resumed with what came of them, and returns
its typed result. Requests are built, answers read, leaders found and retries decided here and nowhere else; a driver
(`milepost.drivers`) only carries effects out. Nothing in this package imports an HTTP library or waits.
"""
