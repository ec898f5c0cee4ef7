"""What prompts say of the folders of groups."""

from lasting_memory.deployment import Deployment


def section_on_groups(d: Deployment) -> str:
    """Whose the notes in groups' folders are, and that an answer says so; "" without such folders."""
    folders = [route for route, scope in d.routes.items() if scope.claim]
    if not folders:
        return ""
    return d.prompt("groups_block.md").replace("{folders}", " and ".join(folders))
