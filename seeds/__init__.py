"""What a deployment starts with, and the command that puts it there: `python -m seeds`."""
