"""Data nodes: every replica receives and sends the bytes of files, and asks the leader to publish the files that it
received.
"""
