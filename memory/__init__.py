"""What the agent remembers: whose it is, where it lives, how it is shown to the model."""
