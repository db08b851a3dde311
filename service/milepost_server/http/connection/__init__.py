"""HTTP/1.1 connections, with limits on the memory and the time that a slow, silent or hostile client may use."""
