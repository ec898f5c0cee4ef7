"""What a person said in their conversations after a time, by the inputs of the platform's runs."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from langchain_core.messages import HumanMessage, convert_to_messages
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError
from langgraph_sdk.schema import Run, ThreadSelectField

from lasting_memory import platform, recall
from lasting_memory.attachments import own_text
from lasting_memory.consolidation.taken_back import DatedText
from lasting_memory.people import identity

# The newest runs of a conversation, in which its person may have said something again.
_RUNS = 100


async def said_since(
    client: LangGraphClient,
    thread_ids: Sequence[str],
    owner_metadata: Sequence[dict[str, str]],
    earliest: str,
) -> list[DatedText]:
    """What the person said in these conversations after the time `earliest`, each message with its
    time. Times are in ISO format, UTC.

    The messages are the last ones of each run's input, as long as they are still in their
    conversation. Of a conversation the newest runs are read. Only threads count that have one of
    the metadata in `owner_metadata`.
    """
    messages = list[DatedText]()
    fields: list[ThreadSelectField] = ["thread_id", "values"]
    threads = await recall.threads_by_id(client.threads, thread_ids, owner_metadata, fields)
    for thread in threads:
        talk = await platform.in_thread(recall.conversation, thread, ("user",))
        present_texts = {turn.text for turn in talk.turns}
        runs = list[Run]()
        with suppress(NotFoundError):  # the conversation was deleted meanwhile
            runs = await client.runs.list(
                thread["thread_id"], limit=_RUNS, select=["run_id", "kwargs"]
            )
        for run in runs:
            run_id = str(run["run_id"])
            at = identity.time_of_run(run_id)
            if at <= earliest:
                continue
            text = last_words(run)
            if text in present_texts:
                messages.append(DatedText(text, at))
    return messages


def last_words(run: Mapping[str, object]) -> str:
    """The last message of a person in a run's input; "" for none, or an input that is no message."""
    run_arguments = run.get("kwargs")
    run_input = run_arguments.get("input") if isinstance(run_arguments, Mapping) else None
    messages = run_input.get("messages") if isinstance(run_input, Mapping) else None
    if not isinstance(messages, list):
        messages = [messages]
    try:
        input_messages = convert_to_messages(messages)
    except (AttributeError, KeyError, NotImplementedError, TypeError, ValueError):
        # It is what the graph itself refused.
        return ""
    for message in reversed(input_messages):
        if isinstance(message, HumanMessage):
            return own_text(message.model_dump())
    return ""
