"""The initial content of a deployment, and the command that writes it: `python -m seeds`."""
