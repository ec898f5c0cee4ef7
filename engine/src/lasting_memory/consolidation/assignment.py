"""What a draft gives its model to work on: the batch as one text, a task, and a copy of the files."""

from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.store.base import BaseStore, PutOp
from langgraph.store.memory import InMemoryStore

from lasting_memory import platform
from lasting_memory.agent.file_sections import sections
from lasting_memory.consolidation.drafts import READ_TOOL, Draft
from lasting_memory.consolidation.facts import TextFile
from lasting_memory.consolidation.taken_back import DatedText, shown_lines
from lasting_memory.memory.line_times import TIMES_FIELD
from lasting_memory.memory.proposals import rules_of
from lasting_memory.recall import rank

_TOPICS = "/memories/topics/"
_INDEX = "/memories/topics/index.md"


def show(draft: Draft, batch_text: str, taken_lines: Sequence[DatedText]) -> None:
    """Have the model read a batch, which is given as text: it becomes the draft's `text`. Blocks.

    With it come the topic files that have most words in common, and the lines that were taken
    back.
    """
    sections_shown = [batch_text]
    files = list[TextFile]()
    if rules_of(draft.record.kind).shows_topics:
        files = _topics_about(draft, batch_text)
    if files:
        max_bytes = draft.deployment.limits.memory_block_bytes
        block, _ = sections(files, max_bytes)
        sections_shown.append(f"# Files about the same\n\n{block}")
    if taken_lines:
        lines = shown_lines(taken_lines, draft.messages_since)
        sections_shown.append(f"# Taken back\n\n{lines}")
    draft.text = "\n\n".join(sections_shown)


def _topics_about(draft: Draft, batch_text: str) -> list[TextFile]:
    """The topic files that have most words in common with a text, best first. Blocks."""
    topics = list[TextFile]()
    searchable_texts = list[str]()
    for path, text in draft.current_files():
        is_topic = path.startswith(_TOPICS) and path != _INDEX
        if not is_topic:
            continue
        topic = (path, text)
        topics.append(topic)
        searchable_texts.append(f"{path} {text}")
    max_files = draft.rules.topic_files_shown
    best_first = rank(batch_text, searchable_texts)
    return [topics[number] for number, _ in best_first[:max_files]]


async def begin_attempt(draft: Draft, refusal: str = "") -> list[AnyMessage]:
    """Begin an attempt with a new copy of the files. Returns the messages with which the model
    begins: its task, and the batch as the answer to a call of `READ_TOOL`.

    `refusal` says why the attempt before was.
    """
    draft.steps = 0
    draft.given_up_lines.clear()
    draft.contradicted_lines.clear()
    draft.copy = _new_copy(draft)
    task = await _task(draft, refusal)
    call_id = f"batch-{draft.record.run_id}"
    call = {"name": READ_TOOL, "args": {}, "id": call_id}
    return [
        HumanMessage(task),
        AIMessage("", tool_calls=[call]),
        ToolMessage(draft.text, name=READ_TOOL, tool_call_id=call_id),
    ]


def _new_copy(draft: Draft) -> BaseStore:
    """A store that has the files, and when their lines were written."""
    ops = list[PutOp]()
    for key, file in draft.base.items():
        value: dict[str, object] = {**file}
        times_written = draft.expired_lines.times_written.get(key)
        if times_written is not None:
            value[TIMES_FIELD] = dict(times_written)
        op = PutOp(draft.memory.files, key, value)
        ops.append(op)
    copy = InMemoryStore()
    # Nothing is waited for: the copy is in this process, and has no index.
    copy.batch(ops)
    return copy


async def _task(draft: Draft, refusal: str) -> str:
    """What the model is asked to do. `refusal` as in `begin_attempt`."""
    task_prompt = rules_of(draft.record.kind).task_prompt
    prompt = await _prompt(draft, f"{task_prompt}.md")
    number_shown = len(draft.shown_conversations)
    task = prompt.replace("{count}", str(number_shown))
    if not refusal:
        return task
    retry = await _prompt(draft, "consolidation_retry.md")
    reason = retry.replace("{reason}", refusal)
    return f"{task}\n{reason}"


async def _prompt(draft: Draft, name: str) -> str:
    """The deployment's prompt in a file with this name."""
    return await platform.in_thread(draft.deployment.prompt, name)
