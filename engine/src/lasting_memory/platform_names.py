"""The internal names of langgraph and its platform that this library uses, with their signatures.

No release promises them. `platform/`, `checkpoints.py`, `http/in_memory_runtime.py`,
`postgres/store.py` and `dev/` use them; a name that one of these takes stands here, too.
`tests/http/test_platform_names.py` checks the whole list, so an upgrade that moves one fails there
with its name.
"""

import inspect
from collections.abc import Iterable
from importlib import import_module
from typing import NamedTuple

# What `PlatformName.signature` is for a value that is no function.
VALUE = "a value"
# What it is for a function that is wrapped, and gets whatever parameters it is called with.
ANY_FUNCTION = "a function"


class PlatformName(NamedTuple):
    """An internal name.

    `name` has periods within the module: "Runs.enter". `signature` has the parameters of a function
    without types and defaults, or is `VALUE` or `ANY_FUNCTION`.
    """

    module: str
    name: str
    signature: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class MovedNameError(RuntimeError):
    """An internal name is not where this library knows it, or has another signature."""


# Of langgraph and the platform's server, on every runtime.
SERVER = (
    PlatformName("langgraph._internal._constants", "CONFIG_KEY_DURABILITY", VALUE),
    PlatformName("langgraph._internal._constants", "INTERRUPT", VALUE),
    PlatformName("langgraph._internal._constants", "NULL_TASK_ID", VALUE),
    PlatformName("langgraph._internal._constants", "RESUME", VALUE),
    PlatformName("langgraph.pregel._task_status", "read_task_statuses", "(pending_writes)"),
    PlatformName("langgraph.types", "_interrupt_id", "(ns, answered)"),
    PlatformName(
        "langgraph.store.base.batch",
        "AsyncBatchedBaseStore.aget",
        "(self, namespace, key, *, refresh_ttl)",
    ),
    PlatformName(
        "langgraph.store.base.batch",
        "AsyncBatchedBaseStore.asearch",
        "(self, namespace_prefix, /, *, query, filter, limit, offset, refresh_ttl)",
    ),
    PlatformName(
        "langgraph.store.base.batch",
        "AsyncBatchedBaseStore.aput",
        "(self, namespace, key, value, index, *, ttl)",
    ),
    PlatformName(
        "langgraph.store.base.batch",
        "AsyncBatchedBaseStore.adelete",
        "(self, namespace, key)",
    ),
    PlatformName(
        "langgraph.store.base.batch",
        "AsyncBatchedBaseStore.alist_namespaces",
        "(self, *, prefix, suffix, max_depth, limit, offset)",
    ),
    PlatformName(
        "langgraph_api._checkpointer",
        "get_checkpointer",
        "(*, conn, unpack_hook, use_direct_connection)",
    ),
    PlatformName("langgraph_api.config", "STORE_CONFIG", VALUE),
    PlatformName("langgraph_api.errors", "value_error_handler", "(request, exc)"),
    PlatformName("langgraph_api.graph", "GRAPHS", VALUE),
    PlatformName("langgraph_api.graph", "NAMESPACE_GRAPH", VALUE),
    PlatformName(
        "langgraph_api.graph",
        "get_graph",
        "(graph_id, config, *, checkpointer, store, access_context, run_id, context, "
        "use_langgraph_runtime)",
    ),
    PlatformName("langgraph_api.graph", "resolve_embeddings", "(index_config)"),
    PlatformName("langgraph_api.store", "get_store", "()"),
    PlatformName("langgraph_api.utils", "with_user", "(user, auth)"),
    PlatformName("langgraph_api.api", "load_custom_app", "(app_import)"),
    PlatformName("langgraph_api.cli", "run_server", ANY_FUNCTION),
    PlatformName("langgraph_runtime", "RUNTIME_EDITION", VALUE),
)

# Of the in-memory runtime, on which `langgraph dev` runs, and of its files.
IN_MEMORY_RUNTIME = (
    PlatformName("langgraph_runtime_inmem._persistence", "_stores", VALUE),
    PlatformName("langgraph_runtime_inmem.checkpoint", "DISABLE_FILE_PERSISTENCE", VALUE),
    PlatformName("langgraph_runtime_inmem.checkpoint", "MEMORY", VALUE),
    PlatformName(
        "langgraph_runtime_inmem.checkpoint",
        "InMemorySaver.__init__",
        "(self, *, serde, __persistence_hook__)",
    ),
    PlatformName("langgraph_runtime_inmem.database", "connect", "(*, supports_core_api, __test__)"),
    PlatformName(
        "langgraph_runtime_inmem.inmem_stream",
        "StreamManager.get_queues",
        "(self, run_id, thread_id)",
    ),
    PlatformName(
        "langgraph_runtime_inmem.inmem_stream",
        "StreamManager.get_control_queues",
        "(self, run_id, thread_id)",
    ),
    PlatformName(
        "langgraph_runtime_inmem.ops", "Runs.enter", "(run_id, thread_id, loop, resumable)"
    ),
    PlatformName("langgraph_runtime_inmem.ops", "Runs.delete", "(conn, run_id, *, thread_id, ctx)"),
    PlatformName("langgraph_runtime_inmem.ops", "Runs.handle_event", "(ctx, action, value)"),
    PlatformName("langgraph_runtime_inmem.ops", "Threads.delete", "(conn, thread_id, ctx)"),
    PlatformName(
        "langgraph_runtime_inmem.ops", "Threads.prune", "(thread_ids, strategy, batch_size, ctx)"
    ),
    PlatformName("langgraph_runtime_inmem.ops", "Threads.handle_event", "(ctx, action, value)"),
    PlatformName(
        "langgraph_runtime_inmem.ops", "Threads._get_with_filters", "(conn, thread_id, filters)"
    ),
    PlatformName(
        "langgraph_runtime_inmem.ops",
        "_delete_checkpoints_for_thread",
        "(thread_id, conn, run_id)",
    ),
    PlatformName(
        "langgraph_runtime_inmem.ops", "_check_filter_match", "(metadata, filters, nesting_level)"
    ),
    PlatformName("langgraph.checkpoint.memory", "PersistentDict.sync", "(self)"),
)

# Of aegra: what `platform/aegra/` replaces, and the private names that it uses.
AEGRA = (
    PlatformName("aegra_api.api.runs", "_apply_create_run_auth", "(user, thread_id, request)"),
    PlatformName("aegra_api.api.runs", "_get_session_maker", "()"),
    PlatformName("aegra_api.api.runs", "create_run", "(thread_id, request, user, session)"),
    PlatformName(
        "aegra_api.api.stateless_runs", "stateless_create_run", "(request, user, session)"
    ),
    PlatformName("aegra_api.api.store", "apply_namespace_scoping", "(namespace, user, *, scopes)"),
    PlatformName("aegra_api.core.auth_deps", "_AUTH_RESULT_SCOPE_KEY", VALUE),
    PlatformName("aegra_api.core.auth_deps", "get_current_user", "(request)"),
    PlatformName("aegra_api.core.auth_filters", "build_metadata_filter", "(column, filters)"),
    PlatformName("aegra_api.core.auth_handlers", "handle_event", "(ctx, value)"),
    PlatformName("aegra_api.core.auth_handlers", "build_auth_context", "(user, resource, action)"),
    PlatformName("aegra_api.core.auth_middleware", "get_auth_instance", "()"),
    PlatformName("aegra_api.core.database", "db_manager", VALUE),
    PlatformName("aegra_api.core.health", "health_check", "(_request)"),
    PlatformName("aegra_api.core.orm", "get_session_maker", "()"),
    PlatformName("aegra_api.models.run_job", "RunJob.from_run_orm", "(run_orm)"),
    PlatformName(
        "aegra_api.services.langgraph_service", "inject_user_context", "(user, base_config)"
    ),
    PlatformName(
        "aegra_api.services.langgraph_service",
        "create_thread_config",
        "(thread_id, user, *, additional_config)",
    ),
    PlatformName("aegra_api.services.run_executor", "with_auth_ctx", "(user, permissions)"),
    PlatformName("aegra_api.services.run_preparation", "executor", VALUE),
    PlatformName("aegra_api.services.run_preparation", "uuid4", "()"),
    PlatformName(
        "aegra_api.services.run_preparation",
        "_prepare_run",
        "(session, thread_id, request, user, *, initial_status, event_streaming_v2)",
    ),
    PlatformName(
        "aegra_api.utils.assistants", "resolve_assistant_id", "(requested_id, available_graphs)"
    ),
)


def check_names(names: Iterable[PlatformName]) -> None:
    """Raise `MovedNameError` for the first of these names that has moved or changed.

    Call it before any of them is replaced: a runtime that is corrected by half is worse than one
    that does not start. It imports their modules.
    """
    for name in names:
        signature = _signature_of(name)
        if name.signature == ANY_FUNCTION and signature not in (None, VALUE):
            continue
        if signature is None:
            raise MovedNameError(
                f"{name} has moved: this version of the platform is not one that this library knows."
            )
        if signature != name.signature:
            raise MovedNameError(
                f"{name} is {signature} in this version of the platform; "
                f"this library knows {name.signature}."
            )


def _signature_of(name: PlatformName) -> str | None:
    """The signature of a name as it is in the installed version; None if it is not there."""
    try:
        value: object = import_module(name.module)
        for part in name.name.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError):
        return None
    if not inspect.isroutine(value):
        return VALUE
    bare = list[inspect.Parameter]()
    for parameter in inspect.signature(value).parameters.values():
        bare.append(inspect.Parameter(parameter.name, parameter.kind))
    return str(inspect.Signature(bare))
