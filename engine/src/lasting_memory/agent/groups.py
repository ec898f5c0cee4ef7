"""What prompts say of the folders of groups.

A group is named by a claim of a person's token, such as a team. Its folder is a route of the
deployment: a folder of files that all members see.
"""

from lasting_memory.deployment import Deployment


def section_on_groups(d: Deployment) -> str:
    """Whose the notes in groups' folders are, and that an answer says so; "" without such folders."""
    folders = list[str]()
    for route, scope in d.routes.items():
        if scope.claim:
            folders.append(route)
    if not folders:
        return ""
    section = d.prompt("groups_block.md")
    folder_names = " and ".join(folders)
    return section.replace("{folders}", folder_names)
