"""The rules for the requests, one module for each subject. A rule returns the changes that a request makes, and changes
nothing itself.
"""
