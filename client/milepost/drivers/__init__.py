"""The HTTP drivers of the SDK: one for blocking code, one for asyncio; both use httpx. `milepost.core` decides which
requests to send and when to wait, and an HTTP driver carries this out. (The driver of a Spark job is something else.)
"""
