"""Store and checkpointer on a Postgres of one's own, or on an embedded one: `make dev-postgres`
only.
"""
