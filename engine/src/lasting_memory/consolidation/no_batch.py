"""Why a run has no batch to work on. Each sentence is a run's answer."""

UNDECIDED = "The person has too many undecided proposals; new conversations wait until they decide."
SHARED = "Nothing is consolidated under MEMORY_SCOPE=assistant: private conversations stay private."
FORGOTTEN = "The person was forgotten; nothing is kept."
ERASED = "A fact was deleted for good meanwhile; what is new stays due."
NOTHING_NEW = "Nothing is new since the last consolidation."
NOTHING_TO_TIDY = "Nothing is remembered that could be tidied."
NO_DREAM = "No conversations are being read again."
INTERRUPTED = "This was interrupted; send the text again."
TEMPORARY = "Nothing is consolidated in a temporary conversation."
REHEARSING = "Another dry run is at work; try again when it has ended."
READING = "Another consolidation is at work; try again when it has ended."

# What a person may be answered when they ask for a run, with the kind of its note.
NOTHING_TO_DO = {
    UNDECIDED: "undecided", FORGOTTEN: "forgotten", NOTHING_NEW: "nothing_new", NOTHING_TO_TIDY: "nothing_remembered",
    INTERRUPTED: "interrupted", REHEARSING: "another_at_work", READING: "another_at_work",
}  # fmt: skip


class NothingToDoError(Exception):
    """The run has no batch. The message is its answer."""
