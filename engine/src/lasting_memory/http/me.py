"""Who a person is here, what the model is shown of them, and the rules of their organization."""

from contextlib import suppress

from langchain_core.messages import SystemMessage
from langchain_core.messages.utils import count_tokens_approximately

from lasting_memory import platform
from lasting_memory.agent.file_sections import Block
from lasting_memory.agent.file_tools import ShownTools, tokens_of_tools
from lasting_memory.agent.graph_parts import offered_tools
from lasting_memory.agent.memory_block import memory_files
from lasting_memory.agent.models import takes_pictures
from lasting_memory.agent.prompt import PromptBlocks, section_on_writing
from lasting_memory.agent.skills import skills
from lasting_memory.agent.snapshot import read_snapshot
from lasting_memory.http.models.person import (
    Me,
    MemoryRoute,
    Policies,
    PolicyFile,
    Prompt,
    PromptBlock,
)
from lasting_memory.http.requests import (
    IN_TURN,
    AboutQuery,
    Caller,
    MemoryQuery,
    PersonRequest,
    memory_router,
)
from lasting_memory.memory import journal
from lasting_memory.memory.stored_files import text_of
from lasting_memory.memory.validation import is_policy
from lasting_memory.people import identity, namespaces, scopes
from lasting_memory.people.scopes import Scope

router = memory_router(IN_TURN)


@router.get("/memory/me")
async def me(caller: Caller, query: AboutQuery) -> Me:
    """Who you are here, and how this deployment keeps memory."""
    user = caller.http.user
    deployment = caller.deployment
    settings = deployment.settings
    routes = dict[str, MemoryRoute]()
    for path in deployment.routes:
        routes[path] = _memory_route(caller, deployment.scope(path))
    return Me(
        user_id=caller.actor.user_id,
        org_id=caller.actor.org_id,
        agents=[*deployment.agents],
        memory_scope=settings.memory_scope,
        routes=routes,
        own_memory=deployment.has_own_memory,
        ends=deployment.ends,
        memory_writes=settings.memory_writes,
        sign_in=settings.sign_in,
        pictures=await platform.in_thread(takes_pictures, settings.agent_model),
        temporary_hours=deployment.limits.temporary_hours,
        operator=identity.is_operator(user, settings),
        writes_policies=identity.may_write_policies(user, settings),
    )


def _memory_route(caller: PersonRequest, scope: Scope) -> MemoryRoute:
    """A folder of a route as it is answered: whether it is shared, who writes there, and its namespace
    in the store; None where the person may not read it.
    """
    actor = caller.actor
    claims = identity.claims_of(caller.http.user)
    namespace = None
    with suppress(scopes.NotAMemberError):
        namespace = scope.namespace(actor, caller.assistant, claims)
    if namespace is not None and not scope.may_read(namespace, actor, claims):
        namespace = None
    writes = scope.rule(caller.deployment.settings)
    return MemoryRoute(shared=scope.is_shared, writes=writes, namespace=namespace)


@router.get("/memory/prompt")
async def prompt(caller: Caller, query: MemoryQuery) -> Prompt:
    """What the model is shown of you at your next turn."""
    deployment = caller.deployment
    blocks = await _blocks_of(caller)
    agent = deployment.agents[0]
    async with platform.graph_to_read(agent, caller.store) as graph:
        tools = offered_tools(graph) if graph else []
    descriptions = ShownTools(deployment)
    shown_tools = await platform.in_thread(descriptions.of, tools)
    tool_names = [tool.name for tool in tools]
    prompt_blocks = [_prompt_block(block) for block in blocks]
    return Prompt(
        blocks=prompt_blocks,
        tools=tool_names,
        tools_tokens=tokens_of_tools(shown_tools),
    )


async def _blocks_of(caller: PersonRequest) -> list[Block]:
    """The parts of the system prompt of a person's next turn, the instructions first."""
    deployment = caller.deployment
    store = caller.store
    actor = caller.actor
    assistant = caller.assistant
    snapshot = await read_snapshot(deployment, store, actor, assistant)
    prompt_blocks = PromptBlocks(deployment, memory_files(deployment))
    blocks = await prompt_blocks.preview(store, actor, assistant, snapshot)
    instructions = deployment.prompt("agent.md")
    is_read_only = any(block.is_read_only for block in blocks)
    if is_read_only:
        instructions = instructions.replace(section_on_writing(deployment), "")
    agent = Block("agent", instructions.strip(), 0)
    listed_skills = skills(deployment)
    if listed_skills is None:
        return [agent, *blocks]
    skills_block = await listed_skills.preview(snapshot)
    return [agent, *blocks, skills_block]


def _prompt_block(block: Block) -> PromptBlock:
    """A part of the system prompt, as it is answered."""
    return PromptBlock(
        name=block.name,
        text=block.text,
        budget=block.budget or None,
        left_out=[*block.left_out],
        bytes=len(block.text.encode(errors="replace")),
        tokens=count_tokens_approximately([SystemMessage(block.text)]),
    )


@router.get("/memory/policies")
async def policies(caller: Caller, query: AboutQuery) -> Policies:
    """The rules of your organization. The store API (PUT /store/items) changes them."""
    namespace = namespaces.policies(caller.actor.org_id)
    files = list[PolicyFile]()
    for item in await journal.all_items(caller.store, namespace):
        key = item.key
        content = text_of(item)
        content_bytes = (content or "").encode()
        file = PolicyFile(
            path=f"/policies{key}",
            key=key,
            content=content,
            bytes=len(content_bytes),
            in_prompt=is_policy(key),
        )
        files.append(file)
    writable = identity.may_write_policies(caller.http.user, caller.deployment.settings)
    return Policies(namespace=namespace, writable=writable, files=files)
