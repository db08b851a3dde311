"""The operations of the service: one method for each operation that a client can request.

They add to the rules what the rules leave out: the bytes of states, deadlines, and waiting. They are independent of
HTTP: a `Caller` identifies the client, an answer is an `Answer` of the rules, and errors are `milepost.errors.Problem`.
"""
