"""The SDK's logic, without any input or output.

Every operation of the SDK is a generator. It yields effects (`Send`, `Sleep`, …), is resumed with the result of each
effect, and returns its typed result. This package alone builds requests, reads answers, finds leaders and decides on
retries; a driver (`milepost.drivers`) only carries the effects out. Nothing in this package imports an HTTP library or
waits.
"""
