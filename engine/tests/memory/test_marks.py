"""What the metadata of threads says, whatever is in it: marks, and whose a thread is."""

import pytest

from lasting_memory.conversations import marks, stopping
from lasting_memory.people.identity import Actor

ODD = [None, [], ["temporary"], "temporary", 7, True]
ALICE = Actor("alice", "acme")


@pytest.mark.parametrize("metadata", ODD, ids=repr)
def test_a_thread_whose_metadata_are_no_object_has_no_mark(metadata: object) -> None:
    thread = {"metadata": metadata}
    assert not marks.is_temporary(thread)
    assert not marks.is_imported(thread)
    assert not marks.stays_out(thread)


def test_a_thread_that_was_read_without_metadata_has_no_mark() -> None:
    assert not marks.stays_out({"thread_id": "t"})


@pytest.mark.parametrize("mark", [marks.TEMPORARY, marks.IMPORTED, marks.HELD_WHILE_PAUSED])
def test_a_thread_with_a_mark_is_never_consolidated(mark: str) -> None:
    assert marks.stays_out({"metadata": {mark: True}})
    assert not marks.stays_out({"metadata": {mark: False}})


@pytest.mark.parametrize("metadata", [*ODD, {}, {"user_id": "alice"}, {"org_id": "acme"}], ids=repr)
def test_a_thread_whose_metadata_name_nobody_has_no_owner(metadata: object) -> None:
    own = {"thread_id": "a", "metadata": {"user_id": "alice", "org_id": "acme"}}
    nobodys = {"thread_id": "b", "metadata": metadata}
    assert stopping.ids_by_owner([nobodys, own]) == {ALICE: ["a"]}
