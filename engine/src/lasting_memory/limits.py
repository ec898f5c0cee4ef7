"""The numbers that a fork decides: `Deployment.limits` and `Deployment.consolidation`. Sizes are bytes of UTF-8."""

from dataclasses import dataclass, fields
from typing import Any

from lasting_memory.settings import SettingsError

_MAY_BE_ZERO = {"model_retries", "topic_files_shown", "removable_share"}


def _check(given: Any) -> None:
    """Raise `SettingsError` for a number that is too small to be meant."""
    for each in fields(given):
        value, zero = getattr(given, each.name), each.name in _MAY_BE_ZERO
        if isinstance(value, int | float) and (value < 0 or (value == 0 and not zero)):
            wanted = "0 or more" if zero else "more than 0"
            raise SettingsError(f"{type(given).__name__}.{each.name} is {value!r}; use {wanted}, e.g. {each.default!r}.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one person, one file or one run may take. Raises `SettingsError` for a number that cannot be meant."""

    # Files shown in every system prompt, in this order. The model reads other files on demand.
    memory_files: tuple[str, ...] = ("/memories/preferences.md", "/memories/profile.json", "/memories/topics/index.md")
    # Bytes of each block of the prompt. A longer one is cut, and says which file to read for the rest.
    memory_block_bytes: int = 16_384
    policy_block_bytes: int = 32_768
    skills_block_bytes: int = 16_384
    # Files of one namespace (a person's memory, an assistant's skills), and their bytes together. Every write reads them.
    max_files: int = 500
    max_bytes: int = 4_194_304
    # Revisions of a file, for its history and for undo.
    revisions_kept: int = 50
    # Hours from the last turn of a temporary conversation to its deletion, by the sweep or at its owner's next conversation.
    temporary_hours: float = 24
    # Days from the last turn of any conversation to its deletion by the sweep, with its index and positions. None: never.
    conversation_days: float | None = None
    # Characters of a search tool's answer.
    search_result_chars: int = 4_000
    # One person's requests a second to one process, and the burst before that rate applies. Further ones wait.
    requests_per_second: int = 20
    requests_at_once: int = 300
    # Answers that are streamed to a person, or waited for, at once.
    open_streams: int = 50
    # A person's conversations with a run under way or queued, and as many consolidations: fewer than half of ten workers.
    busy_threads: int = 4
    # Runs queued behind the current run of one conversation.
    waiting_runs: int = 2
    # Seconds without output until a model call fails (more for models that think long in silence), and further attempts.
    model_silence_seconds: float = 120
    model_retries: int = 2
    # Seconds of model and tool calls in one run.
    max_run_seconds: float = 1_800

    def __post_init__(self) -> None:
        _check(self)
        if odd := [path for path in self.memory_files if not path.startswith("/memories/")]:
            raise SettingsError(f"Limits.memory_files names {odd[0]!r}; use paths under /memories/.")

    @property
    def stored_bytes(self) -> int:
        """Bytes of a namespace's files with their histories. To make room, histories of deleted files go first."""
        return 2 * self.max_bytes


DEFAULTS = Limits()


@dataclass(frozen=True, kw_only=True, slots=True)
class Consolidation:
    """How conversations become memory; when, says the environment. Raises `SettingsError` as `Limits`."""

    # Tokens of conversation (about), and topic files, that one batch shows. A run commits each batch.
    batch_tokens: int = 15_000
    topic_files_shown: int = 5
    # Model calls for one batch. One that needs more changes nothing, and stays due.
    max_steps: int = 40
    # Share of a file's facts (lines except headings and comments) that a batch may remove without a reason.
    removable_share: float = 1 / 3
    # Share of a fact's words that one line must contain to keep the fact. Words that other facts use count less.
    fact_words_kept: float = 2 / 3
    # Records of runs kept for a person.
    records_kept: int = 100
    # Runs at once in one process, beside one that somebody asked for and one dry run: with a sweep and `Limits.busy_threads`,
    # fewer than its workers (N_JOBS_PER_WORKER).
    at_once: int = 2
    # Days after which the sweep (CONSOLIDATION_SCHEDULE) also tidies the memory of somebody with something new, e.g. 30; its
    # changes are proposed to them. None: only for who asks for it.
    tidy_days: float | None = None

    def __post_init__(self) -> None:
        _check(self)


DEFAULT_CONSOLIDATION = Consolidation()
