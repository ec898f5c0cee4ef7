"""Files of the store and of a thread as deepagents backends, and the gate of every write."""
