"""Starts and stops the real parts that Milepost works with, on this machine: for tests, demos and ``make up``.

Everything listens on 127.0.0.1 and on free ports, and keeps its files and its log under a directory that is handed in.
"""
