"""Who may do what."""

from lasting_memory.auth.handlers import auth

__all__ = ["auth"]
