"""The agent's filesystem: the files at each path, and who may write there.

Files are deepagents backends: in the store (`scoped_files.py`, and `route_files.py` in a run), and
in a thread's state (`thread_files.py`). Each checks every write itself. deepagents' `permissions`
repeat the rules: they refuse earlier, with a clearer message.
"""

from deepagents import FilesystemPermission
from deepagents.backends import CompositeBackend
from deepagents.backends.protocol import BackendProtocol
from langchain.agents.middleware import InterruptOnConfig

from lasting_memory.agent.route_files import RouteFiles, StoreOverride
from lasting_memory.agent.thread_files import ThreadFiles
from lasting_memory.deployment import Deployment


def build_backend(deployment: Deployment, drafts: StoreOverride | None = None) -> CompositeBackend:
    """The filesystem of `agent`, or, with the store of drafts, of `consolidation_agent`."""
    routes = dict[str, BackendProtocol]()
    for path in deployment.routes:
        routes[path] = RouteFiles(deployment, path, drafts)
    thread_files = ThreadFiles(list(routes))
    return CompositeBackend(default=thread_files, routes=routes)


def build_permissions(
    deployment: Deployment, *, consolidating: bool = False
) -> list[FilesystemPermission]:
    """The same rules for deepagents' file tools, which refuse a write or pause it for an operator."""
    permissions = list[FilesystemPermission]()
    for path in deployment.routes:
        scope = deployment.scope(path)
        mode = scope.rule(deployment.settings, consolidating=consolidating)
        if mode == "allow":
            continue
        paths = [path.rstrip("/"), f"{path}**"]
        permission = FilesystemPermission(operations=["write"], paths=paths, mode=mode)
        permissions.append(permission)
    return permissions


def interrupted_tools(deployment: Deployment) -> dict[str, bool | InterruptOnConfig]:
    """The memory tools that pause for an operator, by name, because they write shared memory."""
    if not deployment.has_memory:
        return {}
    rule = deployment.memory.rule(deployment.settings)
    if rule != "interrupt":
        return {}
    tools = dict[str, bool | InterruptOnConfig]()
    for name in ("append_memory", "save_profile"):
        tools[name] = InterruptOnConfig(allowed_decisions=["approve", "reject"])
    return tools
