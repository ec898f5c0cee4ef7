"""A preview of the system prompt at a person's next turn: policies, memory, skills."""

import asyncio
from typing import Any

from starlette.responses import Response

from api.requests import PersonRequest, json_response, person_route
from memory import namespaces
from memory.blocks import Block, is_policy
from memory.identity import may_write_policies
from memory.journal import all_items
from memory.prompt import PromptBlocks, memory_files
from memory.skills import preview_skills
from memory.validation import stored_file
from settings import MAX_MEMORY_BYTES


@person_route("assistant_id")
async def prompt(request: PersonRequest) -> Response:
    """
    summary: What the model is shown of you at your next turn
    description: Reads only; a turn also puts right what a run that died left behind, which then shows there and not here.
    responses:
      "200": {description: "`blocks` of the system prompt: name (policies, memory, skills), text, bytes, budget, `left_out`"}
    """
    settings, actor, assistant = request.settings, request.actor, request.assistant
    shown = [*await PromptBlocks(settings, memory_files(settings)).preview(request.store, actor, assistant)]
    shown.append(await preview_skills(request.store, actor, assistant, settings))
    return json_response({"blocks": [_block(block) for block in shown]})


def _block(block: Block) -> dict[str, Any]:
    size = len(block.text.encode(errors="replace"))
    return {"name": block.name, "text": block.text, "bytes": size, "budget": block.budget, "left_out": list(block.left_out)}


@person_route()
async def policies(request: PersonRequest) -> Response:
    """
    summary: The rules of your organization
    responses:
      "200":
        description: >
          `files`: path, key, content (null where it is not text, or beyond 4 MiB in all), bytes, in_prompt; `namespace`, by
          which the store API (PUT /store/items) changes them, and `writable`: whether you may
    """
    namespace = namespaces.policies(request.actor.org_id)
    items = await all_items(request.store, namespace)

    def files() -> list[dict[str, Any]]:
        policies, room = list[dict[str, Any]](), MAX_MEMORY_BYTES
        for item in items:
            try:
                file = stored_file(item)
            except ValueError:
                file = None
            content = file["content"] if file and file["encoding"] == "utf-8" else None
            size = len((content or "").encode())
            room -= size
            about = {"path": f"/policies{item.key}", "key": item.key, "bytes": size, "in_prompt": is_policy(item.key)}
            policies.append({**about, "content": content if room >= 0 else None})
        return policies

    writable = may_write_policies(request.http.user, request.settings)
    return json_response({"namespace": namespace, "writable": writable, "files": await asyncio.to_thread(files)})
