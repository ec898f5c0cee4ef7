"""Only for this machine: the development server and its guard, the chat, the offline model."""
