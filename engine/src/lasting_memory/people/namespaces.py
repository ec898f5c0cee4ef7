"""Every namespace of the store: the writer and the reader of an item both take it from here.

A namespace has a name, such as "memories", and a label, which says whose its items are: ids of
assistants, organizations and people, with colons between them (`identity.label`). Namespaces of files
come from a route's scope (`scopes.py`).
"""

import hashlib
from collections.abc import Callable, Iterable
from typing import Literal, get_args

from lasting_memory.people.identity import Actor, label, part_of

Namespace = tuple[str, ...]


def files_namespace(root: str, *parts: str) -> Namespace:
    """Namespace of the files of a route: `root` is its name, `parts` make its label.

    Raises `IdentityError` for parts that no store could hold.
    """
    labels = [label(part) for part in parts]
    return (root, ":".join(labels))


def skills(assistant_id: str) -> Namespace:
    """Namespace of `/skills/`: the assistant's, shared by its users."""
    return files_namespace("skills", assistant_id)


def policies(org_id: str) -> Namespace:
    """Namespace of `/policies/`: the organization's."""
    return files_namespace("policies", org_id)


def person_label(actor: Actor) -> str:
    """The label of a person in an organization."""
    org = label(actor.org_id)
    user = label(actor.user_id)
    return f"{org}:{user}"


def _of_person(name: str) -> Callable[[Actor], Namespace]:
    """A function that gives a person's namespace of this name."""

    def namespace_of(actor: Actor) -> Namespace:
        return (name, person_label(actor))

    return namespace_of


# How far consolidation has read each of a person's conversations; keys are thread ids.
positions = _of_person("consolidation")
# What was said in a person's conversations before a fact from them was deleted for good: it is not
# consolidated again. Keys are thread ids.
kept_out = _of_person("kept_out")
# What consolidation did for a person; keys are times, with the run's id.
run_records = _of_person("consolidations")
# Namespace and key of when the last sweep that ended began.
LAST_SWEEP: tuple[Namespace, str] = ("sweep",), "last"
# With which assistants a person has memory, under `user+assistant`; keys are the assistants.
# `noted` says who puts them.
assistants = _of_person("assistants")
# Whether a person paused memory or reviews changes; keys are the names in `memory/controls.py`.
controls = _of_person("controls")
# The time before which nothing of a person is due; keys are assistants, or "all".
reading = _of_person("reading")
# Changes that wait for a person's decision, and what was declined; keys are their ids.
proposals = _of_person("proposals")
# What of a person's own memory they offer to their groups, and what became of it; keys are ids.
offers = _of_person("offers")
# Memory that is built anew from all of a person's conversations (`consolidation/dream_store.py`): its
# draft, how far it is, and what is read.
dream = _of_person("dream")
DREAMS: Namespace = ("dream",)  # above all of them
# When each of a person's conversations, or a run of one, was deleted, as long as the run may go on;
# keys are ids of threads and runs.
deleted_threads = _of_person("deleted_threads")
# The time at which a person was forgotten last. It stays, so that writes of older runs are refused.
forgotten = _of_person("forgotten")
FORGOTTEN = "last"  # its key
# A person's tokens by day and run. It stays when they are forgotten: otherwise forgetting would
# renew the day's budget.
usage = _of_person("usage")


def dreamer(place: Namespace) -> Actor:
    """The person whose namespace of `dream` this is. Raises `ValueError` for another namespace."""
    person = place[-1]
    org, _, user = person.partition(":")
    user_id = part_of(user)
    org_id = part_of(org)
    return Actor(user_id, org_id)


def group_files(org_id: str, claim: str, value: str) -> Namespace:
    """Namespace of the files of a group: the people of an organization with this value of a claim."""
    return files_namespace("groups", org_id, claim, value)


# Above all that is offered to groups.
GROUP_OFFERS: Namespace = ("offered",)


def group_offers(files: Namespace) -> Namespace:
    """Namespace of what is offered to a group, whose files these are. Keys are ids of offers."""
    return (*GROUP_OFFERS, files[-1])


def group_of(place: Namespace) -> tuple[str, str, str]:
    """Organization, claim and value of a group, by the namespace of its files or of its offers.

    Raises `ValueError` for a namespace of something else.
    """
    parts = place[-1].split(":")
    has_label = len(place) == 2  # noqa: PLR2004  # the name, and the label
    is_group = len(parts) == 3  # noqa: PLR2004  # organization, claim and value
    if not has_label or not is_group:
        raise ValueError(f"{place!r:.200} is no group's.")
    org_id, claim, value = map(part_of, parts)
    return org_id, claim, value


def noted(files: Namespace) -> tuple[Namespace, str] | None:
    """Namespace and key of the item of `assistants` that lists a namespace of files.

    None if the files are not one person's with one assistant. The journal puts the item with a
    file's first revision, `auth.py` with what comes over the store API. With it, one person's
    memories are found without a look through everybody's namespaces.
    """
    if len(files) != 2:  # noqa: PLR2004  # the name, and the label
        return None
    name, owner = files
    if name != "memories":
        return None
    assistant, _, person = owner.partition(":")
    is_person = ":" in person  # an organization and a user
    if not is_person:
        return None
    try:
        part_of(assistant)
    except ValueError:  # an operator put it, and no assistant has such a label
        return None
    return ("assistants", person), assistant


def journals(files: Namespace) -> Namespace:
    """Namespace under which the logs of all files of a namespace are."""
    return ("journal", *files)


def journal(files: Namespace, key: str) -> Namespace:
    """Namespace of one file's log.

    It holds a digest of the key: a whole key would not fit a Postgres index entry.
    """
    encoded = key.encode()
    digest = hashlib.sha256(encoded).hexdigest()
    shortened = digest[:32]
    return (*journals(files), shortened)


def taken_back(files: Namespace) -> Namespace:
    """Namespace of the lines of these files that were taken back, where the revisions that show it
    are no longer kept.
    """
    return ("taken_back", *files)


RecallPart = Literal["documents", "new", "segments", "texts", "waiting"]
RECALL_PARTS: tuple[RecallPart, ...] = get_args(RecallPart)
RECALL_PREFIX = "recall_"


def recall(actor: Actor, part: RecallPart) -> Namespace:
    """Namespace of a part of the index of a person's past conversations.

    `recall/index.py` says what each part holds.
    """
    name = f"{RECALL_PREFIX}{part}"
    return (name, person_label(actor))


def namespaces_of(actor: Actor, files: Iterable[Namespace]) -> list[Namespace]:
    """Every namespace, or prefix of one, that is deleted when a person is forgotten.

    That is all of theirs but `forgotten` and `usage`. A new namespace of a person must be added
    here, before `assistants`, which leads to the others. `files` are the namespaces of their memory
    files.
    """
    deleted = list[Namespace]()
    for namespace in files:
        deleted.append(namespace)
        deleted.append(journals(namespace))
        deleted.append(taken_back(namespace))
    for part in RECALL_PARTS:
        deleted.append(recall(actor, part))
    others = (
        positions,
        kept_out,
        reading,
        proposals,
        offers,
        dream,
        run_records,
        controls,
        deleted_threads,
        assistants,
    )
    for namespace_of in others:
        deleted.append(namespace_of(actor))
    return deleted
