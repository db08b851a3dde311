"""The short way of the calls of handles, which are answered in front of the parser."""
