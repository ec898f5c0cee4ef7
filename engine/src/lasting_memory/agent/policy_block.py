"""The block of the prompt with the policies of an organization.

Rules are those of its policies that are in no folder: prompts show them. The agent reads the others
where a rule names them.
"""

from collections.abc import Mapping
from operator import attrgetter

from lasting_memory.agent.file_sections import Block, TextFile, file_text, sections
from lasting_memory.agent.snapshot import Snapshot
from lasting_memory.deployment import Deployment
from lasting_memory.memory import validation


def policy_block(d: Deployment, snapshot: Snapshot) -> Block:
    """The block of an organization's rules: its policies that are in no folder."""
    rules = list[TextFile]()
    for item in sorted(snapshot.policies, key=attrgetter("key")):
        if validation.is_policy(item.key):
            path = f"/policies{item.key}"
            text = file_text(path, item)
            rules.append(TextFile(path, text))
    budget = d.limits.policy_block_bytes
    files, omissions = sections(rules, budget)
    if not files:
        files = "(The organization has set no policies.)"
    if snapshot.lacks_policies:
        files += (
            f"\n\n[There are {len(snapshot.policies)} files or more; "
            "ls /policies/ and read those that are not here]"
        )
    prompt = d.prompt("policies_block.md")
    prompt = prompt.replace("{files}", files)
    return Block("policies", prompt, budget, omissions)


def policies_left_out(texts: Mapping[str, str], budget: int) -> list[str]:
    """A line for each policy of an organization that prompts do not show as a whole.

    `texts` are the organization's files of policies, by key. `budget` is bytes.
    """
    rules = list[TextFile]()
    paths_in_folders = list[str]()
    for key, text in sorted(texts.items()):
        path = f"/policies{key}"
        if validation.is_policy(key):
            rules.append(TextFile(path, text))
        else:
            paths_in_folders.append(path)
    _, omissions = sections(rules, budget)
    lines = list[str]()
    for omission in omissions:
        lines.append(
            f"{omission} of it (policy_block_bytes is {budget:,}); "
            "the agent reads the rest from the file"
        )
    for path in paths_in_folders:
        lines.append(f"{path}: it is in a folder; name it in a policy that is in none")
    return lines
