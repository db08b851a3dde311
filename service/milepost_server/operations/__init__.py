"""The operations of the service: one method for each thing that a client can ask for.

They add to the rules what these leave out: the bytes of states, deadlines, and waiting. They know nothing of HTTP: a
`Caller` says for whom an operation is done, its answer is an `Answer` of the rules, and its
errors are `milepost.errors.Problem`.
"""
