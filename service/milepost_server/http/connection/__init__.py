"""HTTP/1.1 connections, with bounds on the memory and time that any client may use, be it slow, silent or hostile."""
