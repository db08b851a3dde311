"""Connections: HTTP/1.1 as a stranger may speak it, and what bounds a slow or a silent one."""
