"""What a fork decides, as one frozen value, which every entry point passes on.

A fork is a project that somebody has made from the template. A route is a path of folders that
outlive a conversation, such as /memories/; its scope says whose the files there are.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import get_args

from pydantic import BaseModel

from lasting_memory.days import zones
from lasting_memory.deployment.checks import Change, Check, judge_of, takes
from lasting_memory.deployment.consolidation import Consolidation
from lasting_memory.deployment.limits import Limits
from lasting_memory.deployment.profile import PROFILE_PATH, Profile
from lasting_memory.deployment.prompts import (
    load_prompt_files,
    prompt_file,
    with_profile,
    without_ends,
    without_profile,
)
from lasting_memory.deployment.source import Unconfirmed
from lasting_memory.people.identity import Actor, assistant_of
from lasting_memory.people.namespaces import Namespace
from lasting_memory.people.scopes import ROUTES, Scope, check_routes
from lasting_memory.settings import (
    CONSOLIDATION_GRAPH,
    Settings,
    SettingsError,
    load_settings,
    registered_graphs,
)

NO_MEMORY = 'There is no memory here: routes in deployment.py has no "/memories/".'
# Takes a person, and returns their first files: texts by path, such as /memories/profile.json.
FirstFiles = Callable[[Actor], Mapping[str, str]]


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
        offers: whether people may offer lines of their own memory to the folders of their groups.
            Where there is no such folder, or nobody has memory of their own, there are no offers.
        ends: whether a line of memory that ends with `(until 2026-12-31)` is over after that day;
            False: it is text like any other.
        dream: whether people may have memory built anew from all of their conversations, as a
            proposal. Where there is no consolidation, or nobody has memory of their own, they
            cannot.
        unconfirmed: what becomes of a line that a text from elsewhere says, and the person did not:
            "mark" writes it, and prompts and the page show it apart; "propose" has it wait for the
            person's yes; "refuse" refuses it.

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
    offers: bool = True
    ends: bool = True
    unconfirmed: Unconfirmed = "mark"
    dream: bool = True

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
        if self.unconfirmed == "propose" and self.consolidation is None:
            raise SettingsError(
                "unconfirmed is 'propose', and consolidation None: nobody could decide about "
                "proposals; use 'mark' or 'refuse'."
            )
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
            "offline_model": (bool, "True or False"),
            "offers": (bool, "True or False"),
            "ends": (bool, "True or False"),
            "dream": (bool, "True or False"),
        }
        for name, (kind, fix) in kinds.items():
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise SettingsError(f"{name} is {value!r:.80}; use {fix}.")
        choices = get_args(Unconfirmed)
        if self.unconfirmed not in choices:
            listed_choices = ", ".join(map(repr, choices))
            raise SettingsError(
                f"unconfirmed is {self.unconfirmed!r:.80}; use one of {listed_choices}."
            )

    def _check_first_files(self) -> None:
        """Raises `SettingsError` for a function that could not be called, or where memory is shared."""
        function = self.first_files
        if function is None:
            return
        is_plain = callable(function) and not inspect.iscoroutinefunction(function)
        if not is_plain or not takes(function, 1):
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
        return tuple(map(judge_of, self.checks))

    @cached_property
    def profile(self) -> type[BaseModel] | None:
        """The schema of a person's profile.

        None where none is named, or nobody has memory of their own.
        """
        if not self.has_own_memory:
            return None
        return self.schemas.get(PROFILE_PATH)

    @property
    def has_memory(self) -> bool:
        """Whether there is a folder `/memories/`."""
        return "/memories/" in self.routes

    @cached_property
    def has_own_memory(self) -> bool:
        """Whether each person has memory of their own: there is memory, and it is not shared."""
        return self.has_memory and not self.memory.is_shared

    @cached_property
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
        claims = {scope.claim for scope in self.routes.values()}
        return frozenset(claim for claim in claims if claim)

    @property
    def has_offers(self) -> bool:
        """Whether people may offer lines of their own memory to a group, whose members read over HTTP."""
        if not self.offers or not self.has_own_memory:
            return False
        scopes = self.routes.values()
        return any(scope.claim and scope.over_http for scope in scopes)

    @property
    def has_dream(self) -> bool:
        """Whether people may have memory built anew from all of their conversations."""
        if not self.dream or self.consolidation is None:
            return False
        return self.has_own_memory

    @property
    def has_approvals(self) -> bool:
        """Whether operators approve writes of agents somewhere."""
        for route in self.routes:
            scope = self.scope(route)
            if scope.rule(self.settings) == "interrupt":
                return True
        return False

    def may_read(self, namespace: Namespace, actor: Actor, claims: Mapping[str, str]) -> bool:
        """Whether the store API may show this namespace to an end user with these verified claims."""
        for route in self.routes:
            scope = self.scope(route)
            if scope.may_read(namespace, actor, claims):
                return True
        return False

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
        load_prompt_files(self.folder)

    def prompt(self, name: str) -> str:
        """The text of a prompt: the fork's own in `prompts/`, or the engine's.

        `{profile_fields}` becomes the names of the profile's fields, `{profile_descriptions}` a
        list of what they hold. Without a profile the point of a list that names one of these is
        left out, and without ends that which tells of `(until YYYY-MM-DD)`. Raises
        `FileNotFoundError` if there is no such prompt.
        """
        if name not in self._prompts:
            self._prompts[name] = self._filled_prompt(name)
        return self._prompts[name]

    @cached_property
    def _prompts(self) -> dict[str, str]:
        """The prompts that were asked for, by name: every turn asks for some."""
        return {}

    def _filled_prompt(self, name: str) -> str:
        text = prompt_file(self.folder, name)
        if not self.ends:
            text = without_ends(text)
        if not self.profile:
            return without_profile(text)
        return with_profile(text, self.profile.model_fields)
