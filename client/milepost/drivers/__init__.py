"""The drivers: they carry out the effects of the core over real connections. One blocks, one uses asyncio; both use
httpx.
"""
