"""Whose a thread, a run or a request is on aegra, where what names the person is odd."""

import pytest

from lasting_memory.platform.aegra import users

ALICE = {"identity": "alice", "org_id": "acme"}


@pytest.fixture(autouse=True)
def label(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "_label_of", [lambda user_id, org_id: f"{user_id} of {org_id}"])


def test_metadata_that_names_a_person_gives_their_label() -> None:
    assert users.label_in({"user_id": "alice", "org_id": "acme"}) == "alice of acme"


@pytest.mark.parametrize(
    "metadata",
    [{}, {"user_id": "alice"}, {"user_id": None, "org_id": "acme"}, {"user_id": 1, "org_id": "a"}],
)
def test_other_metadata_is_nobody_s(metadata: dict[str, object]) -> None:
    assert users.label_in(metadata) is None


@pytest.mark.parametrize("permissions", [None, 5, ()])
def test_claims_without_a_list_of_permissions_give_none(permissions: object) -> None:
    claims = {**ALICE, "permissions": permissions}
    assert users.fields_of(claims, "alice of acme")["permissions"] == []
    assert users.SignedInUser(claims, "alice of acme").permissions == []


def test_a_user_has_the_permissions_of_their_claims() -> None:
    claims = {**ALICE, "permissions": ("read", "operate")}
    fields = users.fields_of(claims, "alice of acme")
    assert fields["permissions"] == ["read", "operate"]
    assert fields["signed_in"] == claims
