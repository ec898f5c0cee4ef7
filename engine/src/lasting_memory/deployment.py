"""What a fork decides: one frozen value, which every entry point passes on."""

from dataclasses import dataclass, field
from pathlib import Path

from lasting_memory.settings import Settings, load_settings

_ENGINE = Path(__file__).parent


@dataclass(frozen=True, eq=False)
class Deployment:
    """What a fork decides. Nothing of it changes at run time.

    Args:
        folder: the fork's own: `langgraph.json`, `.env`, `prompts/`, `policies/` and `seeds/` are in it.
        settings: what differs between deployments of the same code: the environment.
    """

    folder: Path
    settings: Settings = field(default_factory=load_settings)

    def prompt(self, name: str) -> str:
        """The text of a prompt: the fork's own in `prompts/`, or the engine's. Raises `FileNotFoundError` if there is none."""
        own = self.folder / "prompts" / name
        return (own if own.is_file() else _ENGINE / "prompts" / name).read_text("utf-8")
