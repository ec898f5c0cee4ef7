"""What a fork decides: one frozen value, which every entry point passes on.

Sizes are bytes of UTF-8.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar, cast, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    dataclasses,
)

from lasting_memory.days import zones
from lasting_memory.people.identity import Actor, Author, assistant_of
from lasting_memory.people.namespaces import Namespace
from lasting_memory.people.scopes import ROUTES, Scope, check_routes
from lasting_memory.settings import (
    CONSOLIDATION_GRAPH,
    Settings,
    SettingsError,
    load_settings,
    registered_graphs,
)

PROFILE_PATH = "/memories/profile.json"
NO_MEMORY = 'There is no memory here: routes in deployment.py has no "/memories/".'
_ENGINE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Change:
    """A write or a deletion that a check judges.

    Attributes:
        path: the file, as the agent sees it, such as /memories/preferences.md.
        before: its text when the change is judged, of a draft of consolidation the draft's; None:
            there is no file.
        after: its new text; None: it is deleted.
        author: who writes.

    Of a file that is no text, `before` and `after` are base64.
    """

    path: str
    before: str | None
    after: str | None
    author: Author


# Takes a person, and returns their first files: texts by path, such as /memories/profile.json.
FirstFiles = Callable[[Actor], Mapping[str, str]]
# Takes a `Change`; or a file's path, its new text (None: it is deleted) and who writes it. Raises
# `RefusedWrite`, whose message says what to do instead. It may be called more than once for a
# write, and in several threads.
Check = Callable[[Change], None] | Callable[[str, str | None, Author], None]


class Profile(BaseModel):
    """A person as they describe themselves. A missing field keeps its old value.

    A fork's own has this one's fields and its own, each with a default and a description, which the
    model is shown.
    """

    model_config = ConfigDict(extra="forbid")

    name: str | None = Field(None, max_length=200, description="What to call the person.")
    role: str | None = Field(
        None, max_length=200, description="What they do, e.g. 'backend engineer at a bank'."
    )
    language: str | None = Field(
        None, max_length=50, description="The language they want answers in, e.g. 'German'."
    )
    timezone: str | None = Field(
        None, max_length=50, description="IANA name, e.g. 'Europe/Berlin'."
    )
    units: str | None = Field(
        None, max_length=50, description="Units of measurement they prefer, e.g. 'metric'."
    )


@cache  # requests read prompts, too, in the event loop
def _prompt(folder: Path, name: str) -> str:
    """The text of a prompt, from `prompts/` of a fork's folder or from the engine's."""
    own = folder / "prompts" / name
    path = own if own.is_file() else _ENGINE / "prompts" / name
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not UTF-8 text; save it as UTF-8.") from None


def _judge(check: Check) -> Callable[[Change], None]:
    """A check as a function of a `Change`.

    By its signature: one that can take three arguments is given path, content and author.
    """
    if not callable(check) or inspect.iscoroutinefunction(check) or inspect.isclass(check):
        raise SettingsError(
            f"checks has {check!r:.80}; use a plain function of one Change, or of path, content and author."
        )
    if _takes(check, 3):
        of_three = cast("Callable[[str, str | None, Author], None]", check)
        return lambda change: of_three(change.path, change.after, change.author)
    if _takes(check, 1):
        return cast("Callable[[Change], None]", check)
    raise SettingsError(
        f"checks has {check!r:.80}, which takes neither one Change nor path, content and author; let it."
    )


def _takes(function: Callable[..., object], arguments: int) -> bool:
    """Whether a function can be called with so many arguments by position."""
    try:
        inspect.signature(function).bind(*range(arguments))
    except (TypeError, ValueError):  # ValueError: Python knows no signature of it
        return False
    return True


MemoryPath = Annotated[str, Field(pattern="^/memories/")]
Numbers = TypeVar("Numbers")


def _in_one_line(kind: type[Numbers]) -> type[Numbers]:
    """Has a class raise `SettingsError` for a number that cannot be used.

    The error is one line: the number's name, its value and what is wrong.
    """
    validated = kind.__init__

    def init(numbers: Numbers, **values: Any) -> None:
        try:
            validated(numbers, **values)
        except ValidationError as error:
            detail = error.errors()[0]
            name = ".".join(map(str, (kind.__name__, *detail["loc"])))
            raise SettingsError(f"{name} is {detail['input']!r:.80}: {detail['msg']}.") from None

    kind.__init__ = init  # type: ignore[method-assign,assignment]
    return kind


@_in_one_line
@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one person, one file or one run may take.

    Raises `SettingsError` for a number that cannot be used.
    """

    # Files shown in every system prompt, in this order. The model reads other files on demand.
    memory_files: tuple[MemoryPath, ...] = (
        "/memories/preferences.md",
        "/memories/profile.json",
        "/memories/topics/index.md",
    )
    # Bytes of each block of the prompt. A longer one is cut, and says which file to read for the
    # rest.
    memory_block_bytes: PositiveInt = 16_384
    policy_block_bytes: PositiveInt = 32_768
    skills_block_bytes: PositiveInt = 16_384
    # Files of one namespace (a person's memory, an assistant's skills), and their bytes together.
    # Every write reads them.
    max_files: PositiveInt = 500
    max_bytes: PositiveInt = 4_194_304
    # Revisions of a file, for its history and for undo.
    revisions_kept: PositiveInt = 50
    # Hours from the last turn of a temporary conversation to its deletion, by the sweep or at its
    # owner's next conversation.
    temporary_hours: PositiveFloat = 24
    # Days from the last turn of any conversation to its deletion by the sweep, with its index and
    # positions. None: never.
    conversation_days: PositiveFloat | None = None
    # Characters of a search tool's answer.
    search_result_chars: PositiveInt = 4_000
    # One person's requests a second to one process, and the burst before that rate applies. Further
    # ones wait.
    requests_per_second: PositiveInt = 20
    requests_at_once: PositiveInt = 300
    # Answers that are streamed to a person, or waited for, at once.
    open_streams: PositiveInt = 50
    # A person's conversations with a run under way or queued, and as many consolidations: fewer
    # than half of ten workers.
    busy_threads: PositiveInt = 4
    # Runs queued behind the current run of one conversation.
    waiting_runs: PositiveInt = 2
    # Seconds without output until a model call fails (more for models that think long in silence),
    # and further attempts.
    model_silence_seconds: PositiveFloat = 120
    model_retries: NonNegativeInt = 2
    # Seconds of model and tool calls in one run.
    max_run_seconds: PositiveFloat = 1_800

    @property
    def stored_bytes(self) -> int:
        """Bytes of a namespace's files with their histories.

        To make room, histories of deleted files go first.
        """
        return 2 * self.max_bytes


DEFAULTS = Limits()

# Kinds of change: of a line of a text, or a field of a JSON file.
Kind = Literal["add", "update", "remove"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@_in_one_line
@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Consolidation:
    """How conversations become memory. When they do, the environment says.

    Raises `SettingsError` for a number that cannot be used.
    """

    # Tokens of conversation (about), and topic files, that one batch shows. A run commits each
    # batch.
    batch_tokens: PositiveInt = 15_000
    topic_files_shown: NonNegativeInt = 5
    # Model calls for one batch. One that needs more changes nothing, and stays due.
    max_steps: PositiveInt = 40
    # Share of a file's facts (lines except headings and comments) that a batch may remove without a
    # reason.
    removable_share: NonNegativeFloat = 1 / 3
    # Share of a fact's words that one line must contain to keep the fact. Words that other facts
    # use count less.
    fact_words_kept: PositiveFloat = 2 / 3
    # The kinds of change that it may make: {"add"} alone never changes what memory has. Other
    # changes of a batch are left out, line by line (consolidation/kinds.py tells the kinds apart).
    may: Annotated[AbstractSet[Kind], Field(min_length=1), AfterValidator(frozenset)] = frozenset(
        KINDS
    )
    # Records of runs kept for a person.
    records_kept: PositiveInt = 100
    # Runs at once in one process, not counting one that somebody asked for, one dry run and one
    # that waits for its turn. With a sweep and `Limits.busy_threads` the sum must stay below the
    # process's workers (N_JOBS_PER_WORKER).
    at_once: PositiveInt = 2
    # Days after which the sweep (CONSOLIDATION_SCHEDULE) also tidies the memory of somebody with
    # something new, e.g. 30; its changes are proposed to them. None: only for who asks for it.
    tidy_days: PositiveFloat | None = None


DEFAULT_CONSOLIDATION = Consolidation()


@dataclass(frozen=True, eq=False)
class Deployment:
    """What a fork decides. Nothing of it changes at run time.

    Args:
        folder: the fork's own: `langgraph.json`, `.env`, `prompts/`, `policies/` and `seeds/` are
            in it.
        settings: what differs between deployments of the same code: the environment.
        schemas: the pydantic model of each JSON file that code reads, by path. Every write of that
            path is validated. The model of `/memories/profile.json` is also what `save_profile`
            takes and what prompts list; without one there is no profile.
        checks: what every write and deletion must pass, whoever writes: agents, people over HTTP,
            consolidation, seeds. Plain functions of one `Change`, or of path, content and author.
        routes: the folders that outlive a conversation, and whose each is.
        limits: what one person, one file or one run may take.
        consolidation: how conversations become memory between them; None: they do not.
        offline_model: whether the built-in model answers on `langgraph dev` without AGENT_MODEL. It
            follows simple sentences.
        first_files: a new person's first files, by paths such as `/memories/profile.json`: a plain
            function of the person, which is quick and changes nothing. They come beside those of
            `seeds/memories/`, in place of one with its path. It is called in a thread until the
            memory has files. Where it fails, the log says why, and the run goes on without.

    Raises `SettingsError` for a schema, a check, a route or a function that cannot be used. Without
    the route `/memories/` the agent has no memory: skills and policies alone.
    """

    folder: Path
    settings: Settings = field(default_factory=load_settings)
    schemas: Mapping[str, type[BaseModel]] = field(default_factory=lambda: {PROFILE_PATH: Profile})
    checks: Sequence[Check] = ()
    routes: Mapping[str, Scope] = field(default_factory=lambda: ROUTES)
    limits: Limits = field(default_factory=Limits)
    consolidation: Consolidation | None = field(default_factory=Consolidation)
    offline_model: bool = True
    first_files: FirstFiles | None = None

    def __post_init__(self) -> None:
        self._check_kinds()
        check_routes(self.routes, self.settings)
        object.__setattr__(self, "routes", MappingProxyType({**self.routes}))
        object.__setattr__(self, "schemas", MappingProxyType({**self.schemas}))
        object.__setattr__(self, "checks", tuple(self.checks))
        self._check_schemas()
        _ = self.judges  # raises for what is no check
        self._check_first_files()
        self._check_consolidation()
        self._check_profile()

    def _check_schemas(self) -> None:
        """Raises `SettingsError` for what is no path, or no pydantic model."""
        for path, schema in self.schemas.items():
            is_path = isinstance(path, str) and path.startswith("/")
            is_model = inspect.isclass(schema) and issubclass(schema, BaseModel)
            if not is_path or not is_model:
                raise SettingsError(
                    f"schemas has {path!r}: {schema!r}; use a path like {PROFILE_PATH} and a pydantic model."
                )

    def _check_consolidation(self) -> None:
        """Raises `SettingsError` where consolidation, or a lack of it, does not fit the rest."""
        if self.consolidation is not None:
            if not self.has_memory:
                fix = 'add "/memories/": person(). Consolidation writes there: without memory set consolidation=None.'
                raise SettingsError(f'routes has no "/memories/"; {fix}')
            return
        if self.settings.memory_writes == "background":
            raise SettingsError(
                "MEMORY_WRITES is 'background', and consolidation is None: nothing would write; use both."
            )
        days = self.limits.conversation_days
        if days:
            raise SettingsError(
                f"limits: conversation_days is {days}, and consolidation None: nothing sweeps; leave it out."
            )

    def _check_profile(self) -> None:
        """Raises `SettingsError` for a field of the profile without a default."""
        if not self.profile:
            return
        for name, field_info in self.profile.model_fields.items():
            if field_info.is_required():
                raise SettingsError(
                    f"schemas: the profile's field {name!r} has no default; give it one, such as None."
                )

    def _check_kinds(self) -> None:
        """Raises `SettingsError` for an argument of a wrong type."""
        kinds: dict[str, tuple[type | tuple[type, ...], str]] = {
            "folder": (Path, "Path(__file__).parent"),
            "settings": (Settings, "load_settings(), or leave it out"),
            "schemas": (Mapping, f'a mapping, e.g. {{"{PROFILE_PATH}": Profile}}'),
            "routes": (Mapping, 'a mapping, e.g. {"/memories/": person(), ...}'),
            "checks": ((list, tuple), "a list of functions"),
            "limits": (Limits, "Limits(...)"),
            "consolidation": ((Consolidation, type(None)), "Consolidation(...), or None"),
        }
        for name, (kind, fix) in kinds.items():
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise SettingsError(f"{name} is {value!r:.80}; use {fix}.")

    def _check_first_files(self) -> None:
        """Raises `SettingsError` for a function that could not be called, or where memory is shared."""
        function = self.first_files
        if function is None:
            return
        is_plain = callable(function) and not inspect.iscoroutinefunction(function)
        if not is_plain or not _takes(function, 1):
            raise SettingsError(
                f"first_files is {function!r:.80}; use a plain function of one Actor that returns texts by path."
            )
        if not self.has_memory:
            raise SettingsError(
                'first_files is there, and routes has no "/memories/"; leave one out, or add the other.'
            )
        if self.memory.is_shared:
            raise SettingsError(
                "first_files is for one person's memory, and MEMORY_SCOPE=assistant shares it; leave it out."
            )

    @cached_property
    def judges(self) -> tuple[Callable[[Change], None], ...]:
        """The checks, each as a function of a `Change`.

        Raises `SettingsError` for one that can be called in neither form.
        """
        return tuple(map(_judge, self.checks))

    @property
    def profile(self) -> type[BaseModel] | None:
        """The schema of a person's profile.

        None where none is named, or nobody has memory of their own.
        """
        return self.schemas.get(PROFILE_PATH) if self.has_own_memory else None

    @property
    def has_memory(self) -> bool:
        """Whether there is a folder `/memories/`."""
        return "/memories/" in self.routes

    @property
    def has_own_memory(self) -> bool:
        """Whether each person has memory of their own: there is memory, and it is not shared."""
        return self.has_memory and not self.memory.is_shared

    @property
    def memory(self) -> Scope:
        """Whose `/memories/` is, as `MEMORY_SCOPE` says.

        Raises `SettingsError` where there is none.
        """
        if not self.has_memory:
            raise SettingsError(NO_MEMORY)
        return self.scope("/memories/")

    def scope(self, route: str) -> Scope:
        """Whose the files of a route are. Raises `KeyError` if there is no such route."""
        return self.routes[route].with_layout(self.settings.memory_scope)

    @property
    def claims(self) -> frozenset[str]:
        """The claims of a token that routes are for."""
        return frozenset(scope.claim for scope in self.routes.values() if scope.claim)

    @property
    def has_approvals(self) -> bool:
        """Whether operators approve writes of agents somewhere."""
        return any(self.scope(route).rule(self.settings) == "interrupt" for route in self.routes)

    def may_read(self, namespace: Namespace, actor: Actor, claims: Mapping[str, str]) -> bool:
        """Whether the store API may show this namespace to an end user with these verified claims."""
        return any(self.scope(route).may_read(namespace, actor, claims) for route in self.routes)

    @cached_property
    def agents(self) -> tuple[str, ...]:
        """Ids of the graphs that people talk to: all but consolidation's.

        Raises `SettingsError` if one that is needed is not registered.
        """
        graphs = registered_graphs(self.folder)
        if self.consolidation is not None and CONSOLIDATION_GRAPH not in graphs:
            fix = "add it, or set consolidation=None in deployment.py."
            raise SettingsError(f"graphs in langgraph.json lacks {CONSOLIDATION_GRAPH}; {fix}")
        agents = tuple(graph for graph in graphs if graph != CONSOLIDATION_GRAPH)
        if not agents:
            raise SettingsError(
                f"graphs in langgraph.json names no agent; add one beside {CONSOLIDATION_GRAPH}."
            )
        return agents

    @property
    def default_assistant(self) -> str:
        """Id of the first agent's assistant, for requests and scripts that name none."""
        return assistant_of(self.agents[0])

    def load_prompts(self) -> None:
        """Reads every prompt, and the names of time zones, so that no run has to.

        Raises `SettingsError` for a prompt that is not UTF-8.
        """
        zones()
        for folder in (self.folder / "prompts", _ENGINE / "prompts"):
            for path in sorted(folder.glob("*.md")):
                if path.is_file() and not path.name.startswith("."):
                    _prompt(self.folder, path.name)

    def prompt(self, name: str) -> str:
        """The text of a prompt: the fork's own in `prompts/`, or the engine's.

        `{profile_fields}` becomes the names of the profile's fields, `{profile_descriptions}` a
        list of what they hold. Without a profile the point of a list that names one of these is
        left out. Raises `FileNotFoundError` if there is no such prompt.
        """
        text = _prompt(self.folder, name)
        if not self.profile:
            return _without_profile(text)
        descriptions = list[str]()
        for field_name, field_info in self.profile.model_fields.items():
            description = field_info.description or field_info.annotation
            descriptions.append(f"  - `{field_name}`: {description}")
        names = ", ".join(f"`{field_name}`" for field_name in self.profile.model_fields)
        text = text.replace("{profile_fields}", names)
        return text.replace("{profile_descriptions}", "\n".join(descriptions))


def _without_profile(text: str) -> str:
    """A prompt without the points of its lists that name the profile."""
    parts = re.split(r"(?m)^(?=- |\s*$)", text)
    return "".join(part for part in parts if "{profile_" not in part)
