"""Conversations as the platform keeps them: the marks of their threads, titles, retention, and stopping their runs."""
