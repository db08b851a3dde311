"""The operations of the service: one method for each operation that a client can request.

They do the work that the pure rules cannot: they move the bytes of states, set deadlines, and wait. They are
independent of HTTP: a `Caller` identifies the client, an answer is an `Answer` of the rules, and errors are
`milepost.errors.Problem`.
"""
