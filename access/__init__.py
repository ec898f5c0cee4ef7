"""The parts of `auth.py`: tokens, the fields of a request that reach a run, limits, approvals."""
