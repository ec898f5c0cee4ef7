"""Only for this machine: the development server, its checks before it starts, and the chat."""
