"""A person's own view of their memory over HTTP, and the page."""

from lasting_memory.http.app import app

__all__ = ["app"]
