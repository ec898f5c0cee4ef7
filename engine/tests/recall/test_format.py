"""What the index stores is read as it was written, or is damaged."""

import zlib
from base64 import b64encode
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lasting_memory.recall.format import (
    FORMAT,
    MARKS,
    PASSAGES,
    POSTINGS,
    TABLE,
    WORDS,
    DamagedError,
    packed,
    unpacked,
)

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
