"""An export, merged into a person's memory.

Merging removes nothing. It creates missing files and appends missing lines to Markdown files, in
their order; other existing files stay as they are. Conversations come as history
(`import_conversations.py`). Proposals come undecided, and pause and review can only be turned on.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from langgraph.store.base import Item
from starlette.exceptions import HTTPException

from lasting_memory import platform
from lasting_memory.deployment import Change, Source
from lasting_memory.http import requests
from lasting_memory.http.import_conversations import import_conversations, own_id
from lasting_memory.http.import_document import (
    BODY,
    Document,
    DocumentChange,
    DocumentControls,
    DocumentFile,
    parsed,
)
from lasting_memory.http.models.export import Action, Import, ImportedFile
from lasting_memory.http.models.person import Controls, controls_of
from lasting_memory.http.requests import Caller, MemoryQuery, PersonRequest, key_of
from lasting_memory.memory import controls
from lasting_memory.memory.folder import source_of_write
from lasting_memory.memory.proposals import (
    MAX_PROPOSALS,
    Changed,
    Proposal,
    added_sources,
    is_proposal_kind,
)
from lasting_memory.memory.stored_files import stored_file
from lasting_memory.memory.validation import RefusedWrite, check_change, check_file
from lasting_memory.memory.vouches import vouch_new_as
from lasting_memory.people import identity
from lasting_memory.platform import get_client

router = requests.memory_router()
# Of what a document proposes.
_VOUCH = vouch_new_as(Source.UNCONFIRMED)


@router.post("/memory/import", dependencies=[requests.in_turn("import")], openapi_extra=BODY)
async def import_document(caller: Caller, query: MemoryQuery) -> Import:
    """Merge an export, or a part of one, into your memory. To repeat it adds nothing.

    Conversations become history that is read and searched: their text alone, under new ids and
    marked `imported`, never continued, and never consolidated. Pause and review are turned on where
    the export or you have them on. At most 10,000 files and 1,000 conversations: send further ones
    in another part. 409: a file does not fit beside what is there; those before it were imported,
    and it can be repeated. 429: another import of yours is under way.
    """
    body = await caller.http.body()
    document = await platform.in_thread(parsed, body)
    controls_now = await _tighten(caller, document.controls)
    proposals = await _import_proposals(caller, document)
    files = await _import_files(caller, document.files)
    async with get_client() as client:
        conversations = await import_conversations(caller, client, document.conversations)
    return Import(
        files=files, proposals=proposals, controls=controls_now, conversations=conversations
    )


async def _import_files(caller: PersonRequest, files: Sequence[DocumentFile]) -> list[ImportedFile]:
    """Check all files, then merge each with the stored one, and return what became of each.

    Raises `RefusedWrite` before the first write for a file that must not be remembered, and
    `HTTPException` 409 for one that cannot be merged.
    """
    limit = caller.deployment.limits.max_files
    if len(files) > limit:
        raise RefusedWrite(f"There are {len(files)} files, and {limit} is the limit; import fewer.")
    items = await caller.items()
    item_by_key = {item.key: item for item in items}
    for file in files:
        key = key_of(file.path)
        await platform.in_thread(_check_file, caller, file, item_by_key.get(key))
    imported_files = list[ImportedFile]()
    for file in files:
        key = key_of(file.path)
        try:
            action = await _import_file(caller, file, item_by_key.get(key))
        except RefusedWrite as error:
            raise HTTPException(
                409, f"{error} {len(imported_files)} files before it were imported."
            ) from None
        imported_file = ImportedFile(path=file.path, action=action)
        imported_files.append(imported_file)
    return imported_files


def _check_file(caller: PersonRequest, file: DocumentFile, item: Item | None) -> None:
    """Raise `RefusedWrite` for a file that must not be remembered, or not be merged. Blocks."""
    deployment = caller.deployment
    check_file(deployment, file.path, file.content, caller.author, file.encoding)
    try:
        old_file = stored_file(item) if item else None
    except RefusedWrite:  # the import says so when it comes to it
        return
    new_file = file.merged(old_file)
    old_text = old_file["content"] if old_file else None
    new_text = new_file["content"]
    if old_text == new_text:
        return
    source = source_of_write(file.path, old_file, new_file, file.vouch())
    change = Change(file.path, old_text, new_text, caller.author, source)
    check_change(deployment, change)


async def _import_file(caller: PersonRequest, file: DocumentFile, item: Item | None) -> Action:
    """Merge a file with the stored one. Raises `RefusedWrite` for what may not be written.

    Returns "create" for a new file, "append" where lines were missing, "same" for an equal file, and
    "keep" where the stored one stays although the imported one differs.
    """
    old_file = stored_file(item) if item else None
    if old_file:
        content = old_file["content"]
        new_file = file.merged(old_file)
        if new_file["content"] == content:
            if file.content == content:
                return "same"
            return "keep"
    key = key_of(file.path)
    vouch = await platform.in_thread(file.vouch)
    await caller.files.arevise(key, file.merged, times=file.times(), vouch=vouch)
    return "append" if old_file else "create"


async def _import_proposals(caller: PersonRequest, document: Document) -> int:
    """Propose what an export proposes, unless it was imported before, or too much waits.

    Returns how many were proposed.
    """
    # Without consolidation nobody could decide about them.
    if caller.deployment.consolidation is None or not document.proposed_changes:
        return 0
    memory = caller.memory
    present_ids = set[str]()
    waiting_count = 0
    for stored_proposal in await memory.proposals():
        present_ids.add(stored_proposal.id)
        if stored_proposal.changes:
            waiting_count += 1
    kind_by_id = {proposal.id: proposal.kind for proposal in document.proposals}
    proposed_count = 0
    for exported_id, changes in document.proposed_changes.items():
        kind = kind_by_id.get(exported_id, "")
        proposal = _proposal(caller, changes, kind)
        is_present = proposal.id in present_ids
        has_room = waiting_count < MAX_PROPOSALS
        if is_present or not has_room or not _may_wait(caller, proposal):
            continue
        await memory.propose(proposal)
        present_ids.add(proposal.id)
        waiting_count += 1
        proposed_count += 1
    return proposed_count


def _proposal(
    caller: PersonRequest, exported_changes: Sequence[DocumentChange], kind: str
) -> Proposal:
    """A proposal of these changes. Its id is the same whenever this person imports them."""
    actor = caller.actor
    namespace = caller.memory.files
    changes = list[Changed]()
    for exported_change in exported_changes:
        key = key_of(exported_change.path)
        change = Changed(
            key, exported_change.before, exported_change.after, exported_change.deleted
        )
        changes.append(change)
    content = repr((namespace, changes))
    content_id = own_id(actor, content)
    now = datetime.now(UTC)
    is_known_kind = is_proposal_kind(kind)
    return Proposal(
        f"imported-{content_id}",
        now.isoformat(),
        namespace[-1],
        identity.Author("consolidation", actor.user_id),
        changes,
        [],
        kind=kind if is_known_kind else "bring",
        sources={change.path: added_sources(change, _VOUCH) for change in changes},
    )


def _may_wait(caller: PersonRequest, proposal: Proposal) -> bool:
    """Whether an imported proposal changes something, and is not too large."""
    if not proposal.changes:
        return False
    size = 0
    for change in proposal.changes:
        size += len(change.before) + len(change.after)
    limit = 2 * caller.deployment.limits.max_bytes
    return size <= limit


async def _tighten(caller: PersonRequest, exported_controls: DocumentControls) -> Controls:
    """Turn on what the export has on. The person alone does that. Returns what is on now."""
    store = caller.store
    actor = caller.actor
    controls_before = await caller.controls()
    switches = dict[str, bool]()
    for name, is_on in exported_controls.model_dump().items():
        is_on_already = getattr(controls_before, name)
        if is_on and not is_on_already:
            switches[name] = True
    if not switches or caller.author.kind == "operator":
        return controls_of(controls_before)
    is_set = await controls.set_controls(store, actor, switches, caller.writer)
    if not is_set:
        raise HTTPException(409, requests.IMPORT_IS_GONE)
    controls_now = replace(controls_before, **switches)
    return controls_of(controls_now)
