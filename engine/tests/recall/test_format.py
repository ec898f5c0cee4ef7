"""What the index stores is read as it was written, or is damaged."""

import zlib
from base64 import b64encode
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import Item

from lasting_memory.recall.documents import documents, read_document
from lasting_memory.recall.format import (
    FORMAT,
    MARKS,
    PASSAGES,
    POSTINGS,
    TABLE,
    WORDS,
    DamagedError,
    packed,
    read_part,
    unpacked,
)
from lasting_memory.recall.threads import conversation

KINDS = [MARKS, PASSAGES, POSTINGS, TABLE, WORDS]


def item(value: Any) -> Any:
    return SimpleNamespace(value=value)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
def test_rows_come_back_as_they_were(kind: np.dtype[Any], data: st.DataObject) -> None:
    rows = data.draw(st.integers(0, 40))
    size = rows * kind.itemsize
    array = np.frombuffer(data.draw(st.binary(min_size=size, max_size=size)), kind)
    (read,) = unpacked(item(packed({"rows": array})), rows=kind)
    assert read.dtype == kind
    assert read.tobytes() == array.tobytes()


@pytest.mark.parametrize("kind", [PASSAGES, POSTINGS, TABLE, WORDS], ids=str)
def test_bytes_that_are_no_rows_are_damaged(kind: np.dtype[Any]) -> None:
    half_a_row = b64encode(zlib.compress(b"x" * (kind.itemsize + 1))).decode()
    with pytest.raises(DamagedError):
        unpacked(item({"format": FORMAT, "rows": half_a_row}), rows=kind)


@pytest.mark.parametrize("name", ["row", "words", "thread_id", "language", "left_out"])
@pytest.mark.parametrize("odd", [None, ["x"], 0.5, {}])
def test_a_document_with_a_value_that_nobody_writes_is_damaged(name: str, odd: object) -> None:
    talk = conversation({"thread_id": "t", "updated_at": "2026-01-01T00:00:00+00:00"})
    (document,) = documents(talk)
    stored = document.stored()
    assert read_document(item(stored)).thread_id == "t"
    with pytest.raises(DamagedError):
        read_document(item({**stored, name: odd}))


@pytest.mark.parametrize("name", ["table", "languages", "buckets"])
def test_a_part_without_one_of_its_values_is_damaged(name: str) -> None:
    stored = packed({"table": np.zeros(1, TABLE)}, languages=["english"], buckets=1)
    now = datetime.now(UTC)
    part = Item(value=stored, namespace=("recall",), key="t", created_at=now, updated_at=now)
    assert read_part(part).buckets == 1
    del stored[name]
    with pytest.raises(DamagedError):
        read_part(part)
