"""Identities that break other deployments, drawn or listed, and the people and assistants who have them in tests."""

from typing import get_args

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from lasting_memory.deployment import Deployment
from lasting_memory.people.identity import MAX_IDENTITY_BYTES, Actor
from lasting_memory.settings import MemoryScope, Settings
from lasting_memory.testing.deployed import deployed

SETTINGS = Settings(operators=frozenset({"root"}), default_org="home")
SCOPES: tuple[MemoryScope, ...] = get_args(MemoryScope)
ASSISTANT = "11111111-2222-3333-4444-555555555555"
OTHER_ASSISTANT = "99999999-2222-3333-4444-555555555555"
ALICE = Actor("alice", "acme")

# Identities that break other deployments of this kind.
SHAPES = {
    "e-mail": "alice@example.com",
    "auth0": "auth0|42",
    "non-ascii": "José Ñ",
    "longest": "é" * (MAX_IDENTITY_BYTES // 2),
    "root label": "langgraph",
    "trailing newline": "alice\n",
    "prefix": "a",
    "longer than the prefix": "ab",
    "LIKE one": "a_b",
    "LIKE any": "a%b",
    "parent folder": "..",
    "wildcard": "*",
    "emoji": "👩‍🚀",
    "right to left": "אליס",
    "composed": "é",
    "decomposed": "e\u0301",
    "separator": "acme:alice",
    "our own escapes": "~2E",
    "two of our own": "~~7E",
    "slash": "a/b",
    "space": " ",
}


def scoped(scope: MemoryScope) -> Deployment:
    return deployed(memory_scope=scope)


def within_limit(text: str) -> bool:
    return len(text.encode()) <= MAX_IDENTITY_BYTES


ordinary = st.from_regex(r"[a-z]{1,8}(\.[a-z]{1,8})?@[a-z]{1,8}\.com", fullmatch=True)
hostile = st.text(alphabet="aA~27EY:._%|\n -é\u0301👩", min_size=1, max_size=12)
identities = st.one_of(
    ordinary,
    hostile,
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40),
    st.sampled_from(sorted(SHAPES.values())),
)
quickly = hypothesis_settings(max_examples=150, deadline=None)
