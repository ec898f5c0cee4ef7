"""The agent's memory: its owner, its place in the store, its form in the prompt."""
