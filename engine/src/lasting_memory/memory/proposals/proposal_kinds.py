"""The kinds of a proposal: what it was made of, or that the agent wrote it.

A batch is what one run of consolidation reads. Its record and its proposal have the batch's kind. An
agent's proposal has no batch. `KIND_RULES` says what each kind needs.

A new kind is a name in one of the two types and a row of the table. A kind with batches also has a
prompt, and a trigger of its name in `consolidation/schedule.py`. Its batch reads conversations, unless
`consolidation/reading.py` has a case for it. Its changes are made at once, unless its row says that
they wait. The page has its sentences in `consolidation/part.js` (`KINDS`).
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeGuard, get_args

BatchKind = Literal["conversations", "tidy", "bring", "dream"]
ProposalKind = Literal[BatchKind, "agent"]


class KindRules(NamedTuple):
    """What the engine does with batches and proposals of a kind."""

    # Name of the prompt that tells the model its task, without `.md`; "" for a kind without batches.
    task_prompt: str = ""
    # Whether the model is shown the topic files that have most words in common with what it reads.
    shows_topics: bool = True
    # Whether the person decides about its changes first, also where they did not ask for that.
    always_waits: bool = False
    # Whether lines that are over are taken out. Other batches leave them where they are.
    takes_out_over: bool = False
    # Whether a line goes from the proposal once a conversation that it came from is deleted.
    ends_with_conversations: bool = False
    # Whether its person is also shown what they decided about it.
    shows_decisions: bool = False


KIND_RULES: Mapping[ProposalKind, KindRules] = {
    "conversations": KindRules("consolidation_task"),
    "tidy": KindRules(
        "consolidation_tidy", shows_topics=False, always_waits=True, takes_out_over=True
    ),
    "bring": KindRules("consolidation_bring", always_waits=True),
    "dream": KindRules("consolidation_task", ends_with_conversations=True),
    "agent": KindRules(shows_decisions=True),
}


def is_batch_kind(name: object) -> TypeGuard[BatchKind]:
    """Whether this is the name of a kind that batches have."""
    return name in get_args(BatchKind)


def is_proposal_kind(name: object) -> TypeGuard[ProposalKind]:
    """Whether this is the name of a kind that proposals have."""
    return name in get_args(ProposalKind)


def rules_of(kind: str) -> KindRules:
    """What a kind needs. A stored kind that no row names, as of a newer version, needs nothing."""
    if is_proposal_kind(kind):
        return KIND_RULES[kind]
    return KindRules()
