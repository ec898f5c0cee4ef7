"""`python -m lasting_memory.dev` is the command `lasting-memory`."""

from lasting_memory.dev.command import main

main()
