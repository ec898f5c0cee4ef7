"""What is in the store for both agents that are compared.

A benchmark that starts a server imports nothing of `deployment`: the server's process imports the
benchmark again before it has its environment, and would take the settings from there.
"""

from __future__ import annotations

from lasting_memory.testing.people import AGENT

ORG = "acme"
SKILL = "---\nname: summaries\ndescription: How to summarize a meeting.\n---\n\n# Summaries\n\nDecisions first.\n"
POLICY = "# Refunds\n\n- Up to 100 EUR without asking.\n- Above that, a manager decides.\n"


def stored_files(user: str) -> list[tuple[tuple[str, str], str, str]]:
    """Namespace, key and text of what the organization, the assistant and a person of some weeks
    have in the store.
    """
    memories = ("memories", f"{ORG}:{user}")
    return [
        (("policies", ORG), "/refunds.md", POLICY),
        (("policies", ORG), "/tone.md", "# Tone\n\n- Friendly, short, never sarcastic.\n"),
        (("skills", AGENT), "/summaries/SKILL.md", SKILL),
        (
            memories,
            "/preferences.md",
            "# Preferences\n\n" + "- Metric units, and answers in one paragraph.\n" * 20,
        ),
        (memories, "/profile.json", '{\n  "name": "Alice",\n  "timezone": "Europe/Berlin"\n}\n'),
        (
            memories,
            "/topics/index.md",
            "# Topics\n\n" + "- /memories/topics/cooking.md: what she cooks.\n" * 20,
        ),
    ]
