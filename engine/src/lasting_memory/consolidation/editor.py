"""The deep agent inside of graph 2: it edits the draft of its run. Nothing that it does reaches
memory, or a checkpoint.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from deepagents import CompiledSubAgent, create_deep_agent
from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    InputAgentState,
    ModelRequest,
    ModelResponse,
    OutputAgentState,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import RunnableLambda
from langgraph.graph.state import CompiledStateGraph

from lasting_memory.agent.answer_errors import NO_ANSWER
from lasting_memory.agent.backends import build_backend, build_permissions
from lasting_memory.agent.bounds import Bounds
from lasting_memory.agent.memory_block import memory_files
from lasting_memory.agent.models import build_model
from lasting_memory.agent.prompt import PromptBlocks
from lasting_memory.agent.stack import Middleware
from lasting_memory.agent.tools import append_memory_tool
from lasting_memory.agent.whole_answers import whole_answers
from lasting_memory.consolidation.assignment import begin_attempt
from lasting_memory.consolidation.change_kinds import verbs
from lasting_memory.consolidation.drafts import CURRENT_DRAFT, Draft, draft_store
from lasting_memory.consolidation.editor_tools import forget_lines, search_recent_conversations
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, KINDS, Deployment
from lasting_memory.people.identity import Context
from lasting_memory.platform import INNER_DURABILITY, SPANS_WITHOUT_PAYLOAD

Editor = CompiledStateGraph[AgentState[object], Context, InputAgentState, OutputAgentState[object]]

# Every call pays for the description of every tool. `ls` and `grep` find as much as `glob`.
_HIDDEN_TOOLS = {"task", "glob"}
# In place of deepagents' own subagent, whose calls would be neither counted nor bounded.
_REFUSED = {"messages": [AIMessage("Error: consolidation is not delegated; do it yourself.")]}
_NOBODY = CompiledSubAgent(
    name="general-purpose", description="Does nothing.", runnable=RunnableLambda(lambda _: _REFUSED)
)


class TooManyStepsError(Exception):
    """An attempt needs more model calls than `Consolidation.max_steps`."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended: with the model's last answer, or why without one, in a sentence. One of
    the three is set.
    """

    answer: AnyMessage | None = None
    failure: str = ""  # what the provider gave is no answer
    step_limit_sentence: str = ""  # it took too many steps


async def edit(editor: Editor, draft: Draft, refusal: str) -> Ending:
    """Have the model edit a new copy of the person's files. `refusal` says why the attempt before
    was refused; "" for the first one.
    """
    CURRENT_DRAFT.set(draft)
    messages = await begin_attempt(draft, refusal)
    try:
        answer = await last_answer(editor, messages)
    except TooManyStepsError as error:
        return Ending(step_limit_sentence=str(error))
    except NO_ANSWER as error:
        return Ending(failure=str(error))
    return Ending(answer)


async def last_answer(editor: Editor, messages: Sequence[AnyMessage]) -> AnyMessage:
    """Run the editor on these messages. Returns its last message."""
    state = await editor.ainvoke({"messages": list(messages)})
    answers = state["messages"]
    last_message: AnyMessage = answers[-1]
    return last_message


def build_editor(d: Deployment, model: BaseChatModel | None = None) -> Editor:
    """The editor, with `model` or the one that the settings name. Raises `SettingsError` as
    `build_model`.
    """
    rules = d.consolidation or DEFAULT_CONSOLIDATION
    backend = build_backend(d, draft_store)
    middleware: list[Middleware] = [
        ModelCalls(),
        PromptBlocks(d, memory_files(d), draft_store),
        Bounds(d, d.limits.max_run_seconds, drafts=draft_store),
    ]
    editor = create_deep_agent(
        model=whole_answers(model or build_model(d, consolidating=True), d.limits),
        name="draft_editor",
        system_prompt=_system_prompt(d),
        tools=[search_recent_conversations, forget_lines, append_memory_tool(backend, d)],
        backend=backend,
        permissions=build_permissions(d, consolidating=True),
        memory=memory_files(d),
        subagents=[_NOBODY],
        middleware=middleware,
        context_schema=Context,
        checkpointer=False,  # a thread keeps nothing of the conversations that are read
    )
    # `max_steps` is the bound. A node runs at most once for each call of the model, so this limit
    # is never reached first. Without one of its own the editor would have the run's, which a client
    # may have sent.
    recursion_limit = len(editor.nodes) * (rules.max_steps + 1)
    return editor.with_config(
        {"recursion_limit": recursion_limit, "configurable": INNER_DURABILITY}
    )


def _system_prompt(d: Deployment) -> str:
    """What consolidation is told to do, and which kinds of change it may make, where it may not
    make all.
    """
    prompt = d.prompt("consolidation.md")
    rules = d.consolidation or DEFAULT_CONSOLIDATION
    forbidden_kinds = {*KINDS} - rules.may
    if not forbidden_kinds:
        return prompt
    kinds = (
        d.prompt("consolidation_may.md")
        .replace("{may}", verbs(rules.may))
        .replace("{may_not}", verbs(forbidden_kinds, "or"))
    )
    return f"{prompt.rstrip()}\n\n{kinds}"


class ModelCalls(AgentMiddleware[AgentState[object], Context, object]):
    """Counts the model's calls and tokens, and bounds the calls of an attempt
    (`Consolidation.max_steps`).
    """

    trace_policy = SPANS_WITHOUT_PAYLOAD

    async def awrap_model_call(
        self,
        request: ModelRequest[Context],
        handler: Callable[[ModelRequest[Context]], Awaitable[ModelResponse[object]]],
    ) -> ModelResponse[object]:
        """Make one call, without the hidden tools, and note it in the draft and its record.

        Raises `TooManyStepsError` in place of one call too many.
        """
        shown_tools = [tool for tool in request.tools if not _is_hidden(tool)]
        request = request.override(tools=shown_tools)
        draft = CURRENT_DRAFT.get()
        if draft is None:  # a script
            return await handler(request)
        max_steps = draft.rules.max_steps
        if draft.steps >= max_steps:
            raise TooManyStepsError(f"It took more than {max_steps} steps.")
        draft.steps += 1
        draft.record.model_calls += 1
        response = await handler(request)
        for message in response.result:
            usage = getattr(message, "usage_metadata", None) or {}
            draft.record.input_tokens += usage.get("input_tokens", 0)
            draft.record.output_tokens += usage.get("output_tokens", 0)
        return response


def _is_hidden(tool_of_request: object) -> bool:
    """Whether the model is not shown a tool of its request."""
    return getattr(tool_of_request, "name", None) in _HIDDEN_TOOLS
