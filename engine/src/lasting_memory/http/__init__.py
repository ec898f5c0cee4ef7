"""A person's own view of their memory over HTTP; `app.py` lists the routes."""
