"""The error for a setting that cannot be used."""


class SettingsError(ValueError):
    """A setting that cannot be used. The message is one line: variable, value, fix."""
