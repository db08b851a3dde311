"""Images of containers, made without Docker: a root file system of Debian's packages, and wheels on top of it."""
