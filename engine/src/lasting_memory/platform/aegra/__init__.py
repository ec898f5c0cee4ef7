"""aegra, a server of the same protocol on Postgres and Redis, without a licence.

Only `platform` imports this package, and only in a process of that server: nothing of `aegra_api`
is there elsewhere. `install.py` says what it changes of aegra, `server.py` has what `platform` asks
of it, and `platform_names.AEGRA` lists what it uses.
"""
