"""What this fork decides: one frozen value, which every entry point passes on."""

from pathlib import Path

from lasting_memory import Deployment

DEPLOYMENT = Deployment(folder=Path(__file__).parent)
