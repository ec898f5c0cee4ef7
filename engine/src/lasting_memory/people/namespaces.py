"""Every namespace of the store. The writer and the reader of an item both take its namespace from here."""

import hashlib
from collections.abc import Callable, Iterable
from typing import Literal, get_args

from lasting_memory.people import scopes
from lasting_memory.people.identity import Actor, label, part_of

Namespace = scopes.Namespace


def skills(assistant_id: str) -> Namespace:
    """Namespace of `/skills/`: the assistant's, shared by its users."""
    return scopes.assistant().namespace(Actor("", ""), assistant_id)


def policies(org_id: str) -> Namespace:
    """Namespace of `/policies/`: the organization's."""
    return scopes.organization().namespace(Actor("", org_id), "")


def person_label(actor: Actor) -> str:
    """The label of a person in an organization."""
    return f"{label(actor.org_id)}:{label(actor.user_id)}"


def _of_person(name: str) -> Callable[[Actor], Namespace]:
    return lambda actor: (name, person_label(actor))


# How far consolidation has read each of a person's conversations; keys are thread ids.
positions = _of_person("consolidation")
# What consolidation did for a person; keys are times, with the run's id.
run_records = _of_person("consolidations")
# Namespace and key of when the last sweep that ended began.
LAST_SWEEP: tuple[Namespace, str] = ("sweep",), "last"
# With which assistants a person has memory, under `user+assistant`; keys are the assistants. `noted` says who puts them.
assistants = _of_person("assistants")
# Whether a person paused memory or reviews changes; keys are the names in `controls.py`.
controls = _of_person("controls")
# The time before which nothing of a person is due; keys are assistants, or "all".
reading = _of_person("reading")
# Changes that wait for a person's decision, and what was declined; keys are their ids.
proposals = _of_person("proposals")
# The time at which a person was forgotten last. It stays, so that writes of older runs are refused.
forgotten = _of_person("forgotten")
FORGOTTEN = "last"  # its key
# A person's tokens by day and run. It stays when they are forgotten: otherwise forgetting would renew the day's budget.
usage = _of_person("usage")


def noted(files: Namespace) -> tuple[Namespace, str] | None:
    """Under which item of `assistants` a namespace of files is noted, if it is one person's with one assistant.

    The journal puts it with a file's first revision, `auth.py` with what comes over the store API: so nobody has to look
    through everybody's namespaces for one person's.
    """
    assistant, _, person = files[1].partition(":") if len(files) == 2 and files[0] == "memories" else ("", "", "")  # noqa: PLR2004
    try:
        part_of(assistant)
    except ValueError:  # an operator put it, and no assistant has such a label
        return None
    return (("assistants", person), assistant) if ":" in person else None


def journals(files: Namespace) -> Namespace:
    """Namespace under which the logs of all files of a namespace are."""
    return ("journal", *files)


def journal(files: Namespace, key: str) -> Namespace:
    """Namespace of one file's log. It holds a digest of the key: a whole key would not fit a Postgres index entry."""
    return (*journals(files), hashlib.sha256(key.encode()).hexdigest()[:32])


RecallPart = Literal["documents", "new", "segments", "texts", "waiting"]
RECALL_PARTS: tuple[RecallPart, ...] = get_args(RecallPart)


def recall(actor: Actor, part: RecallPart) -> Namespace:
    """Namespaces of the index of a person's past conversations (`recall/index.py` says what each part holds)."""
    return (recall_prefix(part), person_label(actor))


def recall_prefix(part: RecallPart) -> str:
    """The first label of everybody's namespaces of a part of that index; the second is the person."""
    return f"recall_{part}"


def namespaces_of(actor: Actor, files: Iterable[Namespace]) -> list[Namespace]:
    """Every namespace, or prefix of one, that is deleted when a person is forgotten: all of theirs but `forgotten` and `usage`.

    A new namespace of a person must be added here, before `assistants`, which leads to the others. `files` are the namespaces
    of their memory files.
    """
    of_files = [part for namespace in files for part in (namespace, journals(namespace))]
    index = [recall(actor, part) for part in RECALL_PARTS]
    of_consolidation = [of(actor) for of in (positions, reading, proposals, run_records)]
    return [*of_files, *index, *of_consolidation, controls(actor), assistants(actor)]
