"""A person's own view of their memory over HTTP; the routes are in `api.app`."""
