"""This package writes the bytes of states (`intake`), reads them (`delivery`), and deletes them (`deletion_queue`,
`collector`).
"""
