"""The rules for each request, one module for each subject. A rule decides a request, and never carries it out."""
