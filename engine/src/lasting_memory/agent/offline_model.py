"""The built-in chat model that answers while AGENT_MODEL is unset: no key, no network, no intelligence.

What it understands and says is data, in `offline.yaml`. Its answers come from what it is shown (prompt, tool results), and it
drives the real tools. What to say once a tool has answered goes with the call, in the message's `additional_kwargs`, so that a
run that waited for an approval still knows it.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import BaseTool

from lasting_memory.agent.offline_sentences import (
    ASKED,
    DATA,
    END,
    FACTS,
    INTENTS,
    MAX_CHARS,
    RULES,
    SAID,
    TEXTS,
    TOPIC,
    Heard,
    content,
    first,
    has,
    plain,
    restored,
    sentences_of,
    told_in,
    turned,
)
from lasting_memory.controls import PAUSED
from lasting_memory.deployment import PROFILE_PATH

PREFERENCES = "/memories/preferences.md"
_WORD_SECONDS = 0.005  # between two words, so that one sees them come
_DONE = re.compile(r"Added to|Saved|Successfully")  # how the tools begin that wrote
_TALK = re.compile(r"\n\n(?=\d{4}-\d\d-\d\d thread_id=)")
_TURN = re.compile(r"^ +\d+\. user: (.+)", re.MULTILINE)  # what a person said; an agent's turns may have its name


class Line(NamedTuple):
    """Something remembered: its file, the file as shown, the line there, and the same without its mark of a list."""

    path: str
    file: str
    line: str
    text: str


class OfflineModel(BaseChatModel):
    """A chat model made of rules."""

    @property
    def _llm_type(self) -> str:
        return "offline"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        # Bound, not copied with a field: `whole_answers` has wrapped this instance's methods.
        names = [tool.name for tool in tools if isinstance(tool, BaseTool)]
        return self.bind(tools=[{"type": "function", "function": {"name": name}} for name in names])

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        tools = {str(tool["function"]["name"]) for tool in kwargs.get("tools") or ()}
        return ChatResult(generations=[ChatGeneration(message=answer(messages, tools))])

    def _stream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        """Word by word; the last chunk has the tool calls."""
        tools = {str(tool["function"]["name"]) for tool in kwargs.get("tools") or ()}
        message = answer(messages, tools)
        for word in re.findall(r"\s*\S+\s*", message.text):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))
        parts: Any = [{**call, "args": json.dumps(call["args"]), "index": at} for at, call in enumerate(message.tool_calls)]
        end = AIMessageChunk(
            content="", tool_call_chunks=parts, additional_kwargs=message.additional_kwargs, chunk_position="last"
        )
        yield ChatGenerationChunk(message=end)

    async def _astream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in await asyncio.to_thread(lambda: [*self._stream(messages, *args, **kwargs)]):
            yield chunk
            await asyncio.sleep(_WORD_SECONDS)


def answer(messages: Sequence[BaseMessage], tools: set[str]) -> AIMessage:
    """The next message of a conversation, or of a consolidation."""
    prompt = "\n".join(message.text for message in messages if isinstance(message, SystemMessage))
    asked = max((at for at, message in enumerate(messages) if isinstance(message, HumanMessage)), default=0)
    results = {message.tool_call_id: str(message.text) for message in messages[asked:] if isinstance(message, ToolMessage)}
    if "search_recent_conversations" in tools:
        return consolidate(prompt, [*results.values()])
    turn = Turn(prompt, tools, str(messages[asked].text))
    if results:
        told = [message.additional_kwargs.get("then") for message in messages[asked:] if isinstance(message, AIMessage)]
        return AIMessage(turn.answer(next(filter(None, told), []), results))
    turn.read()
    # Said once: at the beginning of a conversation, to a person of whom nothing is remembered. Whoever has had something
    # remembered has been told. A temporary conversation does not know who has.
    if not (turn.lines or turn.profile or turn.closed == "temporary" or any(isinstance(one, AIMessage) for one in messages)):
        turn.say("stand_in")
    if turn.calls:
        return AIMessage("", tool_calls=turn.calls, additional_kwargs={"then": turn.then})
    return AIMessage(turn.answer(turn.then, {}))


class Turn:
    """One message of a person: what is said to it, and the tool calls that it takes."""

    def __init__(self, prompt: str, tools: set[str], text: str) -> None:
        self.prompt, self.tools, self.asked = prompt, tools, text
        self.lang = "de" if RULES["german"].search(text[:MAX_CHARS]) else "en"
        self.lines, self.profile = _remembered(prompt)
        self.calls, self.then = list[dict[str, Any]](), list[dict[str, Any]]()
        paused = "paused" in prompt.partition("</memory>")[2].partition("\n<")[0]
        temporary = "<temporary>" in prompt and "<memory>" not in prompt
        # Why nothing can be written, or "".
        self.closed = "temporary" if temporary else "paused" if paused else "" if "append_memory" in tools else "read_only"

    def text(self, name: str, **slots: str) -> str:
        return str(TEXTS[name][self.lang]).format_map(slots)

    def say(self, name: str, call: str = "", text: str = "", **slots: str) -> None:
        """Say this, once the call has answered."""
        said = {"text": text or self.text(name, **slots), "call": call, "name": name, "lang": self.lang}
        self.then.append({**said, "what": slots.get("what", "")})

    def call(self, tool: str, **args: Any) -> str:
        self.calls.append({"name": tool, "args": args, "id": f"offline-{uuid4()}", "type": "tool_call"})
        return str(self.calls[-1]["id"])

    def read(self) -> None:
        """Take the message sentence by sentence."""
        sentences, keep = sentences_of(self.asked) if len(self.asked) <= MAX_CHARS else [], False
        for sentence in sentences:
            heard = first(INTENTS, sentence)
            if keep:
                self.save(sentence, first(SAID, sentence))
            elif not (keep := bool(heard and heard.name == "remember_next")):
                self.take(sentence, heard)
        if not self.then:
            self.say("what_to_remember" if sentences or not self.asked.strip() else "too_long", most=f"{MAX_CHARS:,}")
        small = {"greeting", "thanks", "passing", "not_understood", "how_are_you", "fine"}
        self.then = [one for one in self.then if one["name"] not in small] or self.then[:1]

    def take(self, sentence: str, heard: Heard | None) -> None:
        """Take a sentence: an intent, a question about what is remembered, or else facts and statements."""
        if heard and heard.name not in {"stated", "passing"}:
            self.lang = heard.lang
            self.act(heard)
        elif asked := first(ASKED, sentence):
            self.lang = asked.lang
            self.tell(asked)
        elif sentence.endswith("?") or RULES["question"].match(sentence):
            lines = _matching(self.lines, sentence) if RULES["first_person"].search(sentence) else []
            none = "no_fact" if RULES["possessive"].search(sentence) and not self.closed else "unknown"
            self.say("you_said" if lines else none, lines=self.quoted(lines))
        else:
            for clause in RULES["clauses"].split(sentence):
                correction, stated = bool(RULES["corrected"].match(clause)), first(INTENTS, turned(clause))
                if fact := first(SAID, clause) or first(SAID, turned(clause)):
                    stated = fact
                self.lang = stated.lang if stated else self.lang
                if fact or (stated and stated.name == "stated" and correction):
                    self.save(turned(clause), fact, "corrected" if correction else "saved")
                else:
                    name = stated.name if stated and stated.name in {"stated", "passing"} else "not_understood"
                    self.say((self.closed or "noted") if name == "stated" else name)

    def act(self, heard: Heard) -> None:
        """Do what is asked for."""
        what = heard.slots.get("what") or heard.slots.get("thing") or ""
        match heard.name:
            case "remember" | "forget" if plain(what) in ("", *DATA["vague"]):
                self.say(f"what_to_{heard.name}")
            case "remember":
                self.save(restored(what), first(SAID, restored(what)))
            case "forget":
                self.forget(restored(what))
            case "recall" | "about" as name:
                self.look_up(name, what)
            case "known":
                self.listed("known", [*self.own(), *(line.text for line in self.lines)])
            case "policies":
                rules = re.sub(r"^## /policies/\S+\n+", "", _block(self.prompt, "policies"), flags=re.MULTILINE)
                rules = re.sub(r"\n{3,}", "\n\n", rules)
                self.say("no_policies" if rules.startswith("(") or not rules else "policies", lines=rules)
            case "skills":
                self.listed("skills", re.findall(r"^- (\*\*.+)", _block(self.prompt, "skills"), re.MULTILINE))
            case name:
                self.say(name, who=f", {self.profile['name']}" if self.profile.get("name") else "")

    def look_up(self, name: str, what: str) -> None:
        """Search past conversations, or memory: what the prompt shows of it, then the rest."""
        if self.closed == "temporary":
            self.say("temporary")
        elif name == "recall" and "search_past_conversations" not in self.tools:
            self.say("no_search")
        elif name == "recall":
            self.say("not_talked", self.call("search_past_conversations", query=what), what=what)
        elif lines := _matching(self.lines, what):
            self.say("you_said", lines=self.quoted(lines))
        else:
            self.say("nothing_about", self.call("search_memories", query=what), what=what)

    def own(self) -> list[str]:
        """The profile, as sentences."""
        fields = {fact.field: fact.text("answer", self.lang) for fact in self.facts() if "profile" in fact.slots}
        return [fields.get(name) or f"{name}: {value}" for name, value in self.profile.items()]

    def listed(self, name: str, lines: Sequence[str]) -> None:
        none = "temporary" if self.closed == "temporary" else f"no_{name}"
        self.say(name if lines else none, lines="\n".join(f"- {line}" for line in lines))

    def save(self, what: str, fact: Heard | None, name: str = "saved") -> None:
        """Have something written: into the profile, in place of the line that it corrects, or as a new line."""
        what, field = what.rstrip(END), fact.field if fact and "save_profile" in self.tools else ""
        value = fact.slots[fact.name] if fact and field else ""
        alike = [line for line in self.lines if (of := first(SAID, line.text)) and fact and of.key == fact.key]
        begins = [line for line in self.lines if plain(line.text).split()[:2] == plain(what).split()[:2]]
        before = alike or (begins if name == "corrected" and len(begins) == 1 else [])
        if self.closed:
            return self.say(self.closed)
        if plain(what) in {plain(line.text) for line in self.lines} or (field and self.profile.get(field) == value):
            return self.say("already", said=what)
        if field:
            call = self.call("save_profile", profile={field: value})
        elif before:
            call = self.edit(before[-1], before[-1].line.replace(before[-1].text, what))
        else:
            call = self.call("append_memory", path=PREFERENCES, text=f"- {what}")
        return self.say(name, call, fact.text("saved") if fact else "", said=what)

    def edit(self, at: Line, new: str = "") -> str:
        """Replace a line, or take it out with a line break."""
        around = (f"\n{at.line}", f"{at.line}\n")
        old = next((one for one in around if f"{at.file}\n".count(one) == 1), at.line)
        return self.call("edit_file", file_path=at.path, old_string=old, new_string=old.replace(at.line, new) if new else "")

    def forget(self, what: str) -> None:
        """Take out the one line that is meant, or the field of the profile."""
        meant = [heard for heard in (first(TOPIC, what), first(SAID, what)) if heard]
        fields = [
            one.field for one in meant if one.slots.get(one.name, self.profile.get(one.field)) == self.profile.get(one.field)
        ]
        exact = [line for line in self.lines if plain(line.text) == plain(what)]
        alike = [line for line in self.lines if (of := first(SAID, line.text)) and meant and of.key == meant[0].key]
        lines = (
            exact
            or (alike if first(TOPIC, what) else [])
            or [line for line in self.lines if has(line.text, RULES["determiner"].sub("", what))]
        )
        if self.closed:
            self.say(self.closed)
        elif field := next((field for field in fields if field in self.profile), ""):
            shown = next(text for path, text in _sections(self.prompt) if path == PROFILE_PATH)
            rest = json.dumps({name: of for name, of in self.profile.items() if name != field}, ensure_ascii=False, indent=2)
            self.say("forgotten", self.call("edit_file", file_path=PROFILE_PATH, old_string=shown, new_string=rest), said=what)
        elif len(lines) == 1:
            self.say("forgotten", self.edit(lines[0]), said=lines[0].text)
        else:
            self.say("several" if lines else "not_known", lines=self.quoted([line.text for line in lines]), said=what)

    def tell(self, asked: Heard) -> None:
        """Answer a question about a fact."""
        found = [fact for fact in self.facts() if fact.key == asked.key]
        found = found or [fact for fact in self.facts() if fact.name == FACTS[asked.name].get("or")]
        lines = _matching(self.lines, asked.slots.get("thing", ""))
        if found:
            self.say("told", said=found[-1].text("answer", self.lang))
        else:
            none = "temporary" if self.closed == "temporary" else "no_fact"
            self.say("you_said" if lines else none, lines=self.quoted(lines))

    def facts(self) -> list[Heard]:
        """What is remembered, as facts; those of the profile first."""
        fields = {str(of["field"]): name for name, of in FACTS.items() if "field" in of}
        own = [Heard(fields[of], self.lang, {fields[of]: v, "profile": of}) for of, v in self.profile.items() if of in fields]
        return own + [fact for line in self.lines if (fact := first(SAID, line.text))]

    def quoted(self, texts: Sequence[str]) -> str:
        return ", ".join(self.text("quoted", said=text) for text in texts)

    def answer(self, then: Sequence[dict[str, str]], results: dict[str, str]) -> str:
        """What to say once the calls have answered. Nothing is said to be written that was refused."""
        texts = dict[str, None]()
        for one in then:
            result, text, self.lang = results.get(one["call"], ""), one["text"], one["lang"]
            if one["name"] == "not_talked":
                text = self.talked(one["what"], result) or text
            elif one["name"] == "nothing_about":
                found = re.findall(r"^(/memories/\S+)\n(.+)", result, re.MULTILINE)
                text = self.text("found", lines="\n\n".join(map(": ".join, found))) if found else text
            elif one["call"] and not _DONE.match(result):
                reason = result.removeprefix("Error: ")[:300] or "..."
                text = self.text("paused" if PAUSED in result else "refused", reason=reason)
            texts[text] = None
        return "\n\n".join(texts)

    def talked(self, what: str, result: str) -> str:
        """What the person said in the conversations found, but questions, and what they have since taken back."""
        talks = sorted(_TALK.split(result), key=lambda talk: talk[:10])
        told = told_in(((talk[:10], said) for talk in talks for said in _TURN.findall(talk)), everything=True)
        present = {fact.key: line.text for line in self.lines if (fact := first(SAID, line.text))}
        asked = {*content(what)} - {*content(DATA["times"][0])}
        said = [
            (date, text)
            for key, (date, text) in told.items()
            if (not asked or asked & {*content(text)}) and plain(present.get(key, text)) == plain(text)
        ]
        lines = [line for line in _matching(self.lines, what) if line not in [text for _, text in said]]
        parts = [self.text("talked", date=date, said=self.quoted([text])) for date, text in said[-5:]]
        return "\n\n".join(parts + ([self.text("remembered_too", lines=self.quoted(lines))] if lines else []))


def consolidate(prompt: str, results: list[str]) -> AIMessage:
    """Read the new conversations, then add their facts that memory lacks and that nobody took back."""
    turn = Turn(prompt, {"append_memory"}, "")
    if not results:
        turn.call("search_recent_conversations")
    elif len(results) == 1:
        told = told_in(("", said) for said in re.findall(r"^user: (.+)", results[0], re.MULTILINE))
        known = {plain(line.text) for line in turn.lines} | {fact.key for fact in turn.facts()}
        new = {plain(text): f"- {text}" for key, (_, text) in told.items() if not {key, plain(text)} & known}
        if new:
            turn.call("append_memory", path=PREFERENCES, text="\n".join(new.values()))
    return AIMessage("" if turn.calls else "Done." if results[1:] else "Nothing new.", tool_calls=turn.calls)


def _matching(lines: Sequence[Line], asked: str) -> list[str]:
    """What is remembered with the most words of a question, if these are half of its words."""
    words = {*content(asked)}
    scores = {line.text: len(words & {*content(line.text)}) for line in lines}
    best = max([*scores.values(), (len(words) + 1) // 2, 1])
    return [text for text, score in scores.items() if score == best][:5]


def _block(prompt: str, name: str) -> str:
    """The contents of a block of the prompt, without its introduction."""
    match = re.search(rf"<{name}>(.*?)</{name}>", prompt, re.DOTALL)
    return match[1].partition("\n\n")[2].strip() if match else ""


def _sections(prompt: str) -> list[tuple[str, str]]:
    """The remembered files in the prompt: path and text."""
    parts = re.split(r"^## (/memories/\S+)$", _block(prompt, "memory"), flags=re.MULTILINE)[1:]
    return [(path, text.strip()) for path, text in zip(parts[::2], parts[1::2], strict=True)]


def _remembered(prompt: str) -> tuple[list[Line], dict[str, str]]:
    """The remembered lines, and the fields of the profile. A heading, and what says what is left out, are no lines."""
    lines, profile = list[Line](), dict[str, str]()
    for path, text in _sections(prompt):
        if path == PROFILE_PATH and text.startswith("{") and text.endswith("}"):
            profile = {name: str(value) for name, value in json.loads(text).items() if value is not None}
        else:
            wanted = [line for line in text.splitlines() if re.search(r"\w", line) and line[0] not in "#["]
            lines += [Line(path, text, line, re.sub(r"^\s*(?:[-*+]|\d+\.) ", "", line).strip()) for line in wanted]
    return lines, profile
