"""What README's "Making it yours" says, done by script in a copy of the project, whose fast tests then run."""
