"""What prompts say of the folders of groups."""

from lasting_memory.deployment import Deployment


def section_on_groups(d: Deployment) -> str:
    """Whose the notes in groups' folders are, and that an answer says so; "" without such folders."""
    folders = [route for route, scope in d.routes.items() if scope.claim]
    if not folders:
        return ""
    section = d.prompt("groups_block.md")
    listed = " and ".join(folders)
    return section.replace("{folders}", listed)
