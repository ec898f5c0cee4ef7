"""The built-in chat model that answers while AGENT_MODEL is unset: no key, no network, no
intelligence.

What it understands and says is data, in `offline.yaml`. Its answers come from what it is shown
(prompt, tool results), and it drives the real tools. What it says once a tool has answered follows
from the call and the result.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import yaml
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from lasting_memory.attachments import has_attachments, own_content
from lasting_memory.controls import PAUSED
from lasting_memory.credentials import find_credential
from lasting_memory.deployment import PROFILE_PATH
from lasting_memory.files.backends import WAITS
from lasting_memory.recall import message_text
from lasting_memory.words import words

# Characters of a message that are matched (offline.yaml says so, too): a pattern's time grows with
# them.
MAX_CHARS = 4_000
# Where new lines go.
FILE = "/memories/preferences.md"
_DATA: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("offline.yaml").read_text("utf-8"))
_LEAD, _GERMAN = (re.compile(_DATA[name], re.IGNORECASE) for name in ("lead", "german"))
_HEAR = {
    do: [
        re.compile(each.format(**_DATA["slots"]).replace("'", "['\u2019]"), re.IGNORECASE)
        for each in patterns
    ]
    for do, patterns in _DATA["hear"].items()
}
_FRAMING = [re.compile(each.replace("'", "['\u2019]"), re.IGNORECASE) for each in _DATA["framing"]]
# A line, but a heading or what says what is left out: with the end of the line before it, and
# without its bullet.
_LINE = re.compile(r"(?:^|\n)(?![#\[])(?:[^\S\n]*(?:[-*+]|\d+\.) )?(.*\w.*)")
Call = dict[str, Any]
# Acts that tell a fact.
_TOLD = {"remember", "name", "noted"}
# In the prompt: a policy without its path, a skill with what it is for.
_SHOWN = {
    "policies": r"(?s)\n## /policies/\S+\n+(.+?)(?=\n+## /policies/|\Z)",
    "skills": r"(?m)^- \*\*.+",
}


class OfflineModel(BaseChatModel):
    """A chat model made of rules."""

    @property
    def _llm_type(self) -> str:
        return "offline"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self.bind(tools=[tool.name for tool in tools if hasattr(tool, "name")])

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(
            generations=[ChatGeneration(message=answer(messages, kwargs.get("tools", [])))]
        )


def answer(messages: Sequence[BaseMessage], tools: Collection[str]) -> AIMessage:
    """The next message of a conversation, or of a consolidation."""
    prompt = "\n".join(message.text for message in messages if isinstance(message, SystemMessage))
    asked = max(
        (at for at, message in enumerate(messages) if isinstance(message, HumanMessage)),
        default=len(messages),
    )
    results = {
        message.tool_call_id: str(message.text)
        for message in messages[asked:]
        if isinstance(message, ToolMessage)
    }
    if "search_recent_conversations" in tools:
        return consolidate(prompt, [*results.values()])
    own = [message for message in messages if isinstance(message, AIMessage)]
    said = [message.model_dump() for message in messages[asked : asked + 1]]
    text = "\n".join(message_text(own_content(message)) for message in said)
    turn = Turn(prompt, tools, "de" if _GERMAN.search(text[:MAX_CHARS]) else "en")
    is_answered = isinstance(messages[-1], AIMessage)
    if results and not is_answered:
        return _message(
            turn.told(call, results.get(str(call["id"]), "")) for call in own[-1].tool_calls
        )
    if is_answered or asked == len(messages):  # a request without messages
        heard = [("nothing", "")]
    elif "<temporary>" in prompt and "<memory>" not in prompt:
        heard = [("temporary", "")]
    else:
        is_attached = any(map(has_attachments, said))
        heard = [("attached", "")] if is_attached else []
        heard += hear(text) if text or not is_attached else []
    # Said once: at the beginning of a conversation, to a person of whom nothing is remembered.
    heard += [] if turn.known or own else [("stand_in", "")]
    return _message(turn.answer(do, what) for do, what in heard)


def _message(answers: Iterable[str | Call]) -> AIMessage:
    given = list(answers)
    said = dict.fromkeys(each for each in given if isinstance(each, str))
    return AIMessage(
        "\n\n".join(said), tool_calls=[each for each in given if not isinstance(each, str)]
    )


class Known(NamedTuple):
    """A line of a file under `/memories/`, or a field of the profile: its text, what stands there,
    and what does without it.
    """

    text: str
    path: str
    old: str
    without: str


class Turn:
    """One message of a person: what is said to it, and the tool calls that it takes."""

    def __init__(self, prompt: str, tools: Collection[str], lang: str) -> None:
        self.prompt, self.tools, self.lang, self.known = prompt, tools, lang, [*_known(prompt)]

    def text(self, name: str, said: str = "", date: str = "") -> str:
        return str(_DATA["answers"][name][self.lang]).format(said=said, date=date)

    def answer(self, do: str, what: str) -> str | Call:
        """What is said to a sentence, or the call that it takes."""
        match do:
            case "remember" | "name":
                return self.remember(do, what)
            case "forget":
                return self.forget(what)
            case "recall" | "about":
                return _call(
                    {"recall": "search_past_conversations", "about": "search_memories"}[do],
                    query=what,
                )
            case "known" | "policies" | "skills":
                shown = (
                    "\n".join(re.findall(_SHOWN[do], _block(self.prompt, do)))
                    if do in _SHOWN
                    else _listed(self.known)
                )
                return self.text(do if shown else f"no_{do}", shown)
            case "ask":
                words = content(what)
                found = _listed(
                    one
                    for one in self.known
                    if words and 2 * len(words & content(one.text)) >= len(words)
                )
                return self.text("ask" if found else "unknown", found)
        return self.text(do)

    def remember(self, do: str, what: str) -> str | Call:
        if do == "name" and "save_profile" in self.tools:
            name = next(
                match["name"] for pattern in _HEAR["name"] if (match := pattern.fullmatch(what))
            )
            return _call("save_profile", profile={"name": name})
        if "append_memory" not in self.tools:
            return self.text("read_only")
        known = plain(what) in [plain(one.text) for one in self.known]
        return (
            self.text("already", what)
            if known
            else _call("append_memory", path=FILE, text=f"- {what}")
        )

    def forget(self, what: str) -> str | Call:
        """Take out the one line, or the one field, that is meant."""
        meant = [one for one in self.known if content(what) and plain(what) in plain(one.text)]
        if len(meant) == 1:
            return _call(
                "edit_file",
                file_path=meant[0].path,
                old_string=meant[0].old,
                new_string=meant[0].without,
            )
        return self.text("several" if meant else "not_known", _listed(meant) or what)

    def told(self, call: Any, result: str) -> str:
        """What to say once the tool has answered. Nothing is said to be written that was refused."""
        match call:
            case {"name": "search_past_conversations", "args": {"query": what}}:
                return self.talked(what, result) or self.text("no_recall", what)
            case {"name": "search_memories"}:
                return f"{self.text('about')}\n\n{result}"
            case _ if not result.startswith(("Added to", "Saved", "Successfully")):
                why = "paused" if PAUSED in result else "waits" if WAITS in result else "refused"
                return self.text(why, result.removeprefix("Error: ")[:300] or "...")
            case {"args": {"profile": {"name": name}}}:
                return self.text("name", name)
            case {"args": {"text": text}}:
                return self.text("remembered", text.removeprefix("- "))
            case _:
                return self.text("forgotten", call["args"]["old_string"].strip("\n- "))

    def talked(self, what: str, result: str) -> str:
        """What the person said about it in the conversations found, but questions."""
        date, found = "", dict[str, str]()
        for began, said in re.findall(
            r"(?m)^(?:about )?(\d{4}-\d\d-\d\d) thread_id=|^ +\d+\. user: (.+[^?\s])\s*$", result
        ):
            date = began or date
            if content(what) & content(said):
                found.setdefault(said.rstrip("."), date)
        return "\n\n".join(self.text("recall", said, found[said]) for said in [*found][:5])


def consolidate(prompt: str, results: Sequence[str]) -> AIMessage:
    """Read what there is, then add what memory lacks: facts of conversations, lines of a text that
    was brought. In memory that is to be tidied, take out lines that stand there twice.
    """
    if not results:
        return _message([_call("search_recent_conversations")])
    text, calls = (
        re.split(r"\n\n# (?:Taken back|Files about the same)\n", results[0])[0],
        list[Call](),
    )
    if text.startswith("## /memories/"):
        calls = [_call("edit_file", **edit) for edit in _without_doubles(text)]
    else:
        brought = text.partition("# What the person brought\n\n")[2]
        known = {_same(one.text) for one in _known(prompt)}
        lines = _facts(re.findall(r"(?m)^user: (.+)", text))
        lines += [line for line in re.findall(r"(?m)^- (.+)", brought) if not _is_framing(line)]
        lines = [
            line for line in lines if not find_credential(line)
        ]  # the whole write would be refused
        if new := {_same(line): f"- {line}" for line in lines if _same(line) not in known}:
            calls = [_call("append_memory", path=FILE, text="\n".join(new.values()))]
    return _message(calls if calls and len(results) == 1 else ["Done."])


def _same(line: str) -> str:
    """What is equal for lines of the same words."""
    return plain(line).strip() or line


def _is_framing(line: str) -> bool:
    """Whether a line of a text that was brought is what an assistant says around the facts, such as
    a greeting.
    """
    return any(pattern.fullmatch(line.strip(" *_")) for pattern in _FRAMING)


def _call(tool: str, **args: Any) -> Call:
    return {"name": tool, "args": args, "id": f"offline-{uuid4()}", "type": "tool_call"}


def _facts(said: Iterable[str]) -> list[str]:
    """What a person told in these texts and did not take back."""
    facts = list[str]()
    for do, what in (act for text in said for act in hear(text)):
        if do == "forget":
            facts = [fact for fact in facts if plain(what) not in plain(fact)]
        elif do in _TOLD:
            facts.append(what)
    return facts


def _without_doubles(memory: str) -> Iterator[dict[str, str]]:
    """What `edit_file` takes to take out of each file the lines that stood before, in the same
    words.
    """
    seen = set[str]()
    for path, file in _files(memory):
        kept = list[str]()
        for line in file.split("\n"):
            kept += (
                [line]
                if line.startswith(("#", "[")) or not plain(line).strip() or plain(line) not in seen
                else []
            )
            seen.add(plain(line))
        if (new := "\n".join(kept)) not in {file, ""}:
            yield {"file_path": path, "old_string": file, "new_string": new}


def hear(text: str) -> list[tuple[str, str]]:
    """What each sentence of a message says: what to do, and with what."""
    if len(text) > MAX_CHARS:
        return [("too_long", "")]
    sentences = _lines(re.sub(r"(?<=[.!?])(?<!\b\d\.)\s+", "\n", text))
    return [next(_meanings(sentence)) for sentence in sentences] or [("not_understood", "")]


def _meanings(sentence: str) -> Iterator[tuple[str, str]]:
    bare = sentence.rstrip(".!?\u2026 ")
    for do, patterns in _HEAR.items():
        for pattern, form in product(
            patterns, dict.fromkeys((bare, _LEAD.sub("", bare), sentence))
        ):
            if match := pattern.fullmatch(form):
                yield do, match.groupdict().get("what", form)
    yield "not_understood", bare


def _block(prompt: str, name: str) -> str:
    """A block of the prompt; empty if it has none."""
    found = re.search(rf"(?s)<{name}>(.*?)</{name}>", prompt)
    return found[1] if found else ""


def _known(prompt: str) -> Iterator[Known]:
    """The remembered lines; of the profile, its fields."""
    for path, file in _files(_block(prompt, "memory")):
        if path == PROFILE_PATH and file.startswith("{") and file.endswith("}"):
            for name, value in json.loads(file).items():
                if value is not None:
                    old = f'"{name}": {json.dumps(value, ensure_ascii=False)}'
                    yield Known(f"My {name} is {value}", path, old, f'"{name}": null')
        else:
            yield from (Known(line[1], path, line[0], "") for line in _LINE.finditer(file))


def _files(shown: str) -> Iterator[tuple[str, str]]:
    """The files of a block: path and text."""
    parts = re.split(r"(?m)^## (/memories/\S+)$", shown)[1:]
    return zip(parts[::2], map(str.strip, parts[1::2]), strict=True)


def _lines(text: str) -> list[str]:
    return [" ".join(line[1].split()) for line in _LINE.finditer(text)]


def _listed(known: Iterable[Known]) -> str:
    return "\n".join(f"- {one.text}" for one in known)


def plain(text: str) -> str:
    """A text's words, between spaces: a text within another has its words in this order."""
    return " " + " ".join(words(text)) + " "


def content(text: str) -> set[str]:
    """The words that a text is about, by their beginnings."""
    return {
        word[:5]
        for word in plain(text).split()
        if len(word) > 1 and word not in _DATA["stop"].split()
    }
