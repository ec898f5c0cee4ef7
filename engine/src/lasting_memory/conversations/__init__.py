"""Conversations as the platform keeps them: their marks and titles, retention, stopping runs."""
