"""The use cases: what the service does for a caller, with the bytes, the deadlines and the waiting that the rules
leave out.

They know nothing of HTTP: a `Caller` says who acts, the answers are the rules' `Answer`, errors are
`milepost.errors.Problem`.
"""
