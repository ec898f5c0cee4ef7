"""The fields of a request that reach a run, with their types and bounds. `access/run_requests.py` rebuilds requests from them.

No other field arrives. docs/security.md gives the reason for each decision; tests compare both with the platform's code, so a
field of a new version needs a decision before it is used.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, StrictBool, StrictFloat, StrictInt, StringConstraints

from memory import controls
from settings import MAX_RECURSION_LIMIT

# Keys of the metadata of one run or thread, and characters of each key and value.
MAX_METADATA_KEYS = 50
MAX_METADATA_CHARS = 2_000
# Jumps (`command.goto`) of one run: each may be a task at once.
MAX_JUMPS = 10
# Links for feedback that one run may ask for: each is a call to LangSmith.
MAX_FEEDBACK_KEYS = 10

OWNER_KEYS = ("user_id", "org_id")
# Metadata that the platform, langgraph or this project stamps and relies on. A client's value is ignored, since clients echo
# metadata. A test compares the list with the platform's code.
RESERVED_METADATA = frozenset(
    {
        *OWNER_KEYS,
        *controls.RUN_METADATA,
        *(controls.TEMPORARY, controls.HELD_WHILE_PAUSED, "thread_owner"),
        *("assistant_id", "created_by", "cron_id", "graph_id", "run_attempt", "run_id", "thread_id"),
        *("checkpoint_id", "checkpoint_map", "checkpoint_ns", "counters_since_delta_snapshot"),
    }
)
RESERVED_PREFIXES = ("__", "langgraph_", "lc_", "ls_")

Text = Annotated[str, StringConstraints(strict=True, max_length=MAX_METADATA_CHARS, pattern=r"^[^\x00]*$")]
Id = Annotated[UUID, AfterValidator(str)]
Scalar = Text | StrictBool | StrictInt | StrictFloat | None
Texts = Annotated[list[Text], Field(max_length=MAX_METADATA_KEYS)]
Number = StrictInt | StrictFloat


def _not_reserved(given: object) -> object:
    if given is None:
        return {}
    return {key: of for key, of in given.items() if not reserved(key)} if isinstance(given, Mapping) else given


def reserved(key: object) -> bool:
    """Whether clients may not set a key of metadata."""
    if controls.creating_run.get() and key in controls.RUN_METADATA:
        return False
    if controls.stamping.get() and key == controls.HELD_WHILE_PAUSED:
        return False
    return key in RESERVED_METADATA or str(key).startswith(RESERVED_PREFIXES)


# Only A2A's routes send it: the ids of its tasks.
A2A = Annotated[dict[Text, Scalar | Texts], Field(max_length=MAX_METADATA_KEYS)]


def _flat(metadata: dict[str, Any]) -> dict[str, Any]:
    for key, of in metadata.items():
        if isinstance(of, dict) and key != "a2a":
            raise ValueError(f"{key!r} is an object; send texts, numbers and booleans")
    return metadata


Metadata = Annotated[
    dict[Text, Scalar | A2A],
    BeforeValidator(_not_reserved),
    Field(max_length=MAX_METADATA_KEYS),
    AfterValidator(_flat),
]


class _Listed(BaseModel):
    """Accepts the fields it lists, and ignores others, as pydantic does by default."""

    def given(self) -> dict[str, Any]:
        """The given fields except nulls, by the names they were given."""
        fields = type(self).model_fields.items()
        return {field.alias or name: value for name, field in fields if (value := getattr(self, name)) is not None}


class Configurable(_Listed):
    """`config.configurable`. The platform has put its own fields there already, or may have: they have types, too."""

    # Checkpoints of the run's own thread: the platform writes the thread's id last.
    checkpoint_id: Id | None = None
    checkpoint_ns: Text | None = None
    checkpoint_map: dict[Text, Id] | None = None

    langgraph_auth_user: Any = None
    langgraph_auth_user_id: Any = None
    langgraph_auth_permissions: Any = None
    langgraph_request_id: Text | None = None
    event_streaming_v2: StrictBool | None = Field(None, alias="__event_streaming_v2")
    request_start_time_ms: Number | None = Field(None, alias="__request_start_time_ms__")
    after_seconds: Number | None = Field(None, alias="__after_seconds__")
    otel_traceparent: Text | None = Field(None, alias="__otel_traceparent__")
    otel_tracestate: Text | None = Field(None, alias="__otel_tracestate__")
    dd_trace_headers: dict[Text, Text] | None = Field(None, alias="__dd_trace_headers__")


class OperatorConfigurable(Configurable):
    """With the field of an operator's cron, and those that choose the destination of an operator's traces."""

    cron_id: Id | None = None
    langsmith_project: Text | None = Field(None, alias="__langsmith_project__")
    langsmith_example_id: Text | None = Field(None, alias="__langsmith_example_id__")
    baggage_trace: Text | None = Field(None, alias="langsmith-trace")
    baggage_metadata: Metadata | None = Field(None, alias="langsmith-metadata")
    baggage_tags: Texts | None = Field(None, alias="langsmith-tags")
    baggage_project: Text | None = Field(None, alias="langsmith-project")


class Config(_Listed):
    """A run's or an assistant's `config`."""

    tags: Texts | None = None
    metadata: Metadata | None = None
    recursion_limit: Annotated[StrictInt, Field(ge=1, le=MAX_RECURSION_LIMIT)] | None = None
    configurable: Configurable | None = None


class OperatorConfig(Config):
    """The same with an operator's `configurable`."""

    configurable: OperatorConfigurable | None = None


class _Send(_Listed):
    """A node, and its input in place of the state."""

    node: Text
    input: Any = None


Jump = Text | Annotated[_Send, AfterValidator(dict)]


class Command(_Listed):
    """A run's `command`. `rebuild_run` checks its resume and update with the run's whole input."""

    resume: Any = None
    update: Any = None
    goto: Jump | Annotated[list[Jump], Field(max_length=MAX_JUMPS)] | None = None


class Run(_Listed):
    """A run for the worker, without its context. Fields of any type are checked where they are used."""

    input: Any = None
    command: Command | None = None
    webhook: str | None = None
    interrupt_before: Literal["*"] | Texts | None = None
    interrupt_after: Literal["*"] | Texts | None = None
    stream_mode: list[str] | None = None
    feedback_keys: Annotated[Texts, Field(max_length=MAX_FEEDBACK_KEYS)] | None = None
    temporary: StrictBool | None = None
    subgraphs: StrictBool | None = None
    resumable: StrictBool | None = None
    checkpoint_during: StrictBool | None = None
    durability: Literal["sync", "async", "exit"] | None = None
    config: Config


class OperatorRun(Run):
    """The same with an operator's `config`."""

    config: OperatorConfig


class Cron(_Listed):
    """An operator's cron: its plan, and the fields of its runs. The platform has checked the fields of any type."""

    assistant_id: Any = None
    schedule: Any = None
    timezone: Any = None
    end_time: Any = None
    enabled: Any = None
    on_run_completed: Any = None
    input: Any = None
    metadata: Metadata | None = None
    config: OperatorConfig | None = None
    context: Any = None  # `_context` checks it
    webhook: str | None = None
    interrupt_before: Literal["*"] | Texts | None = None
    interrupt_after: Literal["*"] | Texts | None = None
    multitask_strategy: Any = None
    stream_mode: Any = None
    stream_subgraphs: Any = None
    stream_resumable: Any = None
    durability: Any = None
