"""Which kinds of change consolidation may make: held by a comparison of its draft with memory,
whatever the model did.
"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lasting_memory.consolidation.permitted_changes import permitted_part
from lasting_memory.deployment import KINDS, Consolidation, Kind
from lasting_memory.memory.proposals import Changed
from lasting_memory.settings import SettingsError
from tests.consolidation.conftest import BEFORE, FOOD, MY_FOOD

OTHER = "/topics/other.md"


def left(
    after: str | None, *may: Kind, before: str = BEFORE, key: str = FOOD
) -> tuple[str, list[tuple[str, str]]]:
    """What becomes of a file that the batch made this of (None: deleted), and what is left out."""
    change = Changed(key, before, after or "", deleted=after is None)
    kept, beyond = permitted_part([change], may)
    text = before if not kept else "" if kept[0].deleted else kept[0].after
    return text, [(each.kind, each.text) for each in beyond]


ADDED = "# Food\n\n- likes fennel\n- hates dill\n- likes leek\n- eats at seven\n"
MOVED = "# Food\n\n- eats at seven\n\n- likes fennel\n- hates dill\n"
DILL = BEFORE.replace("hates dill", "likes dill since May")
NO_DILL = BEFORE.replace("- hates dill\n", "")
ALL = ["# Food", "- likes fennel", "- hates dill", "- eats at seven"]
CASES: list[tuple[str | None, tuple[Kind, ...], str, list[tuple[str, str]]]] = [
    (ADDED, ("add",), ADDED, []),
    (ADDED, ("update", "remove"), BEFORE, [("add", "- likes leek")]),
    (DILL, ("update",), DILL, []),
    (DILL, ("add", "remove"), BEFORE, [("update", "- likes dill since May")]),
    (NO_DILL, ("remove",), NO_DILL, []),
    (NO_DILL, ("add", "update"), BEFORE, [("remove", "- hates dill")]),
    # Another order, and blank lines: nothing of it is gone, new or other.
    (MOVED, ("add",), MOVED, []),
    # One place with all three: the update is found by its words, wherever it stands.
    (
        "# Food\n\n- likes leek\n- hates dill, but not in soup\n- eats at seven\n", ("add",),
        BEFORE, [("update", "- likes leek"), ("update", "- hates dill, but not in soup")],
    ),
    (
        "# Food\n\n- walks to work\n- likes fennel and leek\n- hates dill\n- eats at seven\n", ("add",),
        "# Food\n\n- walks to work\n- likes fennel\n- hates dill\n- eats at seven\n", [("update", "- likes fennel and leek")],
    ),
    ("", ("add",), BEFORE, [("remove", line) for line in ALL]),
    (None, ("add", "update"), BEFORE, [("remove", line) for line in ALL]),
    (None, ("remove",), "", []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("after", "may", "becomes", "beyond"), CASES, ids=[str(n) for n in range(len(CASES))]
)
def test_changes_beyond_the_kinds_are_left_out_line_by_line(
    after: str | None, may: tuple[Kind, ...], becomes: str, beyond: list[tuple[str, str]]
) -> None:
    assert left(after, *may) == (becomes, beyond)


LINES = st.lists(
    st.sampled_from(["- a b", "- a c", "- d e", "- d e f", "# g", "", "- h"]), max_size=8
).map("\n".join)


@given(LINES, LINES, st.sets(st.sampled_from(KINDS), min_size=1))
def test_no_draft_gets_around_the_kinds(before: str, after: str, may: set[Kind]) -> None:
    text, beyond = left(after, *may, before=before)
    lines, now = ([line for line in of.split("\n") if line.strip()] for of in (before, text))
    if not {"remove", "update"} & may:
        assert sorted(set(lines) - set(now)) == [], "what memory has stays"
    if not {"add", "update"} & may:
        assert sorted(set(now) - set(lines)) == [], "nothing new comes"
    if "remove" not in may and "update" in may:
        assert len(now) >= len(lines)
    if not beyond and before.strip():
        assert text.split() == after.split()
    again, nothing = left(text, *may, before=before)
    assert ([line for line in again.split("\n") if line.strip()], nothing) == (now, [])


def test_a_line_that_moves_to_another_file_is_neither_gone_nor_new() -> None:
    facts = "- likes fennel\n- hates dill\n- eats at seven\n"
    gone = Changed(FOOD, BEFORE, "", deleted=True)
    changes = [gone, Changed(OTHER, "- walks\n", f"- walks\n{facts}")]
    for kind in KINDS:
        assert permitted_part(changes, {kind}) == (changes, []), kind
    kept, beyond = permitted_part(
        [gone, Changed(OTHER, "- walks\n<!--\n", f"- walks\n<!--\n{facts}")], {"add"}
    )
    assert [each.path for each in beyond if each.kind == "remove"] == [MY_FOOD] * 4, (
        "in a comment they are gone"
    )
    assert FOOD not in {change.key for change in kept}


def profile(**fields: Any) -> str:
    return json.dumps(fields)


@pytest.mark.parametrize(("may", "becomes", "beyond"), [
    ({"add"}, {"name": "Ann", "role": "cook", "units": "metric"}, [("remove", "name: Ann"), ("update", "role: baker")]),
    ({"update"}, {"name": "Ann", "role": "baker"}, [("remove", "name: Ann"), ("add", "units: metric")]),
    ({"remove"}, {"role": "cook"}, [("update", "role: baker"), ("add", "units: metric")]),
    ({"add", "update", "remove"}, {"role": "baker", "units": "metric"}, []),
])  # fmt: skip
def test_json_is_held_to_the_kinds_field_by_field(
    may: set[Kind], becomes: dict[str, str], beyond: list[tuple[str, str]]
) -> None:
    before, after = profile(name="Ann", role="cook"), profile(role="baker", units="metric")
    text, found = left(after, *may, before=before, key="/profile.json")
    assert (json.loads(text), found) == (becomes, beyond)


@pytest.mark.parametrize(
    "after", ["# Was true\n- hates dill\n", "-\n- hates dill\n", "- …\n- hates dill\n"]
)
def test_a_line_that_says_nothing_stands_in_place_of_no_fact(after: str) -> None:
    before = "- likes fennel\n- hates dill\n"
    text, beyond = left(after, "add", "update", before=before)
    assert "- likes fennel" in text
    assert beyond == [("remove", "- likes fennel")]


@pytest.mark.parametrize(("before", "after", "may", "kind"), [
    ({"x": 1}, {"x": True}, {"add"}, "update"),
    ({"x": "tea"}, {"x": ""}, {"add", "update"}, "remove"),
    ({"x": ["tea"]}, {"x": []}, {"add", "update"}, "remove"),
    ({"x": {"a": 1, "b": 2}}, {"x": {"a": 1}}, {"add", "update"}, "remove"),
    ({"x": {"a": {"b": 2}}}, {"x": {"a": {"b": 3}}}, {"add"}, "update"),
    ({"x": {"a": 1}}, {"x": {}}, {"add", "update"}, "remove"),
    ({"x": {"a": 1}}, {"x": {"a": 1, "b": 2}}, {"update"}, "add"),
])  # fmt: skip
def test_the_kind_of_a_json_change_is_that_of_its_value_at_any_depth(
    before: Any, after: Any, may: set[Kind], kind: Kind
) -> None:
    text, beyond = left(json.dumps(after), *may, before=json.dumps(before), key="/data.json")
    assert (text, [found for found, _ in beyond]) == (json.dumps(before), [kind])


def test_json_fields_that_may_be_added_within_an_object_are_added() -> None:
    before, after = (
        {"x": {"a": 1, "b": ""}, "y": None},
        {"x": {"a": 2, "b": "tea", "c": 3}, "y": [1]},
    )
    text, beyond = left(json.dumps(after), "add", before=json.dumps(before), key="/data.json")
    assert json.loads(text) == {"x": {"a": 1, "b": "tea", "c": 3}, "y": [1]}
    assert beyond == [("update", "x.a: 2")]


def test_json_of_any_depth_is_no_error() -> None:
    before, after = ('{"a":' * 400 + f"{number}" + "}" * 400 for number in (1, 2))
    assert left(after, "add", before=before, key="/data.json")[0] == before


def test_a_json_file_that_is_no_object_changes_as_a_whole() -> None:
    assert left("[1, 2]", "add", before="[1]", key="/list.json") == (
        "[1]",
        [("update", "the whole file")],
    )
    assert left(None, "add", before="[1]", key="/list.json") == (
        "[1]",
        [("remove", "the whole file")],
    )
    assert left("[1]", "add", before="", key="/list.json") == ("[1]", [])


@pytest.mark.parametrize("may", [{"delete"}, set(), "add", {"add", "ADD"}, None])
def test_an_unknown_kind_is_refused_where_the_deployment_is_built(may: Any) -> None:
    with pytest.raises(SettingsError, match=r"^Consolidation\.may[^\n]*$"):
        Consolidation(may=may)


def test_moves_are_all_that_is_left_where_the_same_text_comes_and_goes() -> None:
    twice = BEFORE + "- likes fennel\n"
    assert left(twice, "update") == (BEFORE, [("add", "- likes fennel")]), "a second copy is new"
