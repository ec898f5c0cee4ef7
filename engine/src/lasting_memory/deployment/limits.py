"""What one person, one file or one run may take. Sizes are bytes of UTF-8."""

from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, dataclasses

from lasting_memory.deployment.numbers import in_one_line

MemoryPath = Annotated[str, Field(pattern="^/memories/")]


@in_one_line
@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one person, one file or one run may take.

    Raises `SettingsError` for a number that cannot be used.
    """

    # Files shown in every system prompt, in this order. The model reads other files on demand.
    memory_files: tuple[MemoryPath, ...] = (
        "/memories/preferences.md",
        "/memories/profile.json",
        "/memories/topics/index.md",
    )
    # Bytes of each block of the prompt. A longer one is cut, and says which file to read for the
    # rest.
    memory_block_bytes: PositiveInt = 16_384
    policy_block_bytes: PositiveInt = 32_768
    skills_block_bytes: PositiveInt = 16_384
    # Files of one namespace (a person's memory, an assistant's skills), and their bytes together.
    # Every write reads them.
    max_files: PositiveInt = 500
    max_bytes: PositiveInt = 4_194_304
    # Revisions of a file, for its history and for undo.
    revisions_kept: PositiveInt = 50
    # Hours from the last turn of a temporary conversation to its deletion, by the sweep or at its
    # owner's next conversation.
    temporary_hours: PositiveFloat = 24
    # Days from the last turn of any conversation to its deletion by the sweep, with its index and
    # positions. None: never.
    conversation_days: PositiveFloat | None = None
    # Characters of a search tool's answer.
    search_result_chars: PositiveInt = 4_000
    # One person's requests a second to one process, and the burst before that rate applies. Further
    # ones wait.
    requests_per_second: PositiveInt = 20
    requests_at_once: PositiveInt = 300
    # Answers that are streamed to a person, or waited for, at once.
    open_streams: PositiveInt = 50
    # A person's conversations with a run under way or queued, and as many consolidations: fewer
    # than half of ten workers.
    busy_threads: PositiveInt = 4
    # Runs queued behind the current run of one conversation.
    waiting_runs: PositiveInt = 2
    # Seconds without output until a model call fails (more for models that think long in silence),
    # and further attempts.
    model_silence_seconds: PositiveFloat = 120
    model_retries: NonNegativeInt = 2
    # Seconds of model and tool calls in one run.
    max_run_seconds: PositiveFloat = 1_800

    @property
    def stored_bytes(self) -> int:
        """Bytes of a namespace's files with their histories.

        To make room, histories of deleted files go first.
        """
        return 2 * self.max_bytes


DEFAULTS = Limits()
