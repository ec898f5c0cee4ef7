"""Who may do what. People may do what is listed here, each on what is theirs; everything else is
for operators.
"""

from deployment import DEPLOYMENT

from lasting_memory import build_auth

auth = build_auth(
    DEPLOYMENT,
    open_to_people={
        "assistants:read",
        "assistants:search",
        "threads:create",
        "threads:create_run",
        "threads:delete",
        "threads:read",
        "threads:search",
        "threads:update",
        # Their own memory and their organization's policies. With the permission `policies:write`
        # also to write the policies.
        "store:delete",
        "store:get",
        "store:list_namespaces",
        "store:put",
        "store:search",
    },
)
