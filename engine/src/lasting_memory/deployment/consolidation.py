"""How conversations become memory: the numbers of consolidation, and what it may change."""

from collections.abc import Set as AbstractSet
from typing import Annotated, Literal, get_args

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    dataclasses,
)

from lasting_memory.deployment.numbers import in_one_line

# Kinds of change: of a line of a text, or a field of a JSON file.
Kind = Literal["add", "update", "remove"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@in_one_line
@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Consolidation:
    """How conversations become memory. When they do, the environment says.

    Raises `SettingsError` for a number that cannot be used.
    """

    # Tokens of conversation (about), and topic files, that one batch shows. A run commits each
    # batch.
    batch_tokens: PositiveInt = 15_000
    topic_files_shown: NonNegativeInt = 5
    # Model calls for one batch. One that needs more changes nothing, and stays due.
    max_steps: PositiveInt = 40
    # Share of a file's facts (lines except headings and comments) that a batch may remove without a
    # reason.
    removable_share: NonNegativeFloat = 1 / 3
    # Share of a fact's words that one line must contain to keep the fact. Words that other facts
    # use count less.
    fact_words_kept: PositiveFloat = 2 / 3
    # The kinds of change that it may make: {"add"} alone never changes what memory has. Other
    # changes of a batch are left out, line by line (consolidation/permitted_changes.py tells them apart).
    may: Annotated[AbstractSet[Kind], Field(min_length=1), AfterValidator(frozenset)] = frozenset(
        KINDS
    )
    # Records of runs kept for a person.
    records_kept: PositiveInt = 100
    # Runs at once in one process, not counting one that somebody asked for, one dry run and one
    # that waits for its turn. With a sweep and `Limits.busy_threads` the sum must stay below the
    # process's workers (N_JOBS_PER_WORKER).
    at_once: PositiveInt = 2
    # Days after which the sweep (CONSOLIDATION_SCHEDULE) also tidies the memory of somebody with
    # something new, e.g. 30; its changes are proposed to them. None: only for who asks for it.
    tidy_days: PositiveFloat | None = None


DEFAULT_CONSOLIDATION = Consolidation()
