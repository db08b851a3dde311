"""The drivers, which carry out the effects of `milepost.core` over HTTP connections: one for blocking code, one for
asyncio; both use httpx.
"""
