"""The built-in chat model that answers while AGENT_MODEL is unset: no key, no network, no intelligence.

What it understands and says is data, in `offline.yaml`. Its answers come from what it is shown (prompt, tool results), and it
drives the real tools. What to say once a tool has answered goes with the call, in the message's `additional_kwargs`, so that a
run that waited for an approval still knows it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import yaml
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from lasting_memory.controls import PAUSED
from lasting_memory.deployment import PROFILE_PATH
from lasting_memory.files.routes import WAITS

# Characters of a message that are matched: a pattern's time grows with them.
MAX_CHARS = 4_000
# Lines that a tidy takes out, one a step.
_MOST_DOUBLES = 30
_DATA: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("offline.yaml").read_text("utf-8"))


def _compiled(pattern: str) -> re.Pattern[str]:
    slots = re.sub(r"\{([A-Za-z]+)\}", lambda slot: f"(?P<{slot[1].lower()}>{_DATA['slots'][slot[1]]})", pattern)
    return re.compile(slots.replace("'", "['\u2019]"), re.IGNORECASE)


def _table(of: dict[str, Any], do: str = "") -> list[Any]:
    """What to do ("said", "topic" or "ask" for a fact, or the intent itself), the fact or intent, the language, the pattern."""
    listed = [(name, each[do] if do else each, lang) for name, each in of.items() for lang in ("en", "de")]
    return [(do or each.get("do", name), name, lang, _compiled(one)) for name, each, lang in listed for one in each[lang]]


_FACTS, _RULES = _DATA["facts"], {name: _compiled(of) for name, of in _DATA["rules"].items()}
_SAID, _TOPIC, _ASK = (_table(_FACTS, do) for do in ("said", "topic", "ask"))
_ASKED, _QUESTIONS, _STATED = (_table(_DATA[name]) for name in ("intents", "questions", "statements"))


class Heard(NamedTuple):
    """What a pattern made of a sentence: see `_table`, and the slots, with the sentence as `said`.

    Of what is remembered the slots have its place too: `path`, the `file` as shown, the `line` there; or, of a field of the
    profile, what the `rest` of the file is without it.
    """

    do: str
    name: str
    lang: str
    slots: dict[str, str]

    @property
    def key(self) -> str:
        """What there is one of at a time: a fact, or else a sentence."""
        one = self.name in _FACTS and "many" not in _FACTS[self.name]
        return f"{self.name}: {plain(self.slots.get('thing', ''))}" if one else plain(self.slots["said"])

    def text(self, what: str, lang: str) -> str:
        """The fact, told as `what`. Names of things fit their own language only."""
        return str(_FACTS[self.name][what][self.lang if self.slots.get("thing") else lang]).format_map(self.slots)


class OfflineModel(BaseChatModel):
    """A chat model made of rules."""

    @property
    def _llm_type(self) -> str:
        return "offline"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        # Bound, not copied with a field: `whole_answers` has wrapped this instance's methods.
        return self.bind(tools=[tool.name for tool in tools if hasattr(tool, "name")])

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=answer(messages, kwargs.get("tools", [])))])

    def _stream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        """Word by word; the last chunk has the tool calls."""
        message = answer(messages, kwargs.get("tools", []))
        for word in re.findall(r"\s*\S+\s*", message.text):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))
        end = message.model_dump(include={"tool_calls", "additional_kwargs"})
        yield ChatGenerationChunk(message=AIMessageChunk(content="", chunk_position="last", **end))


def answer(messages: Sequence[BaseMessage], tools: Iterable[str]) -> AIMessage:
    """The next message of a conversation, or of a consolidation."""
    prompt = "\n".join(message.text for message in messages if isinstance(message, SystemMessage))
    asked = max((at for at, message in enumerate(messages) if isinstance(message, HumanMessage)), default=0)
    results = {message.tool_call_id: str(message.text) for message in messages[asked:] if isinstance(message, ToolMessage)}
    if "search_recent_conversations" in tools:
        return consolidate(prompt, [*results.values()])
    turn, own = Turn(prompt, {*tools}, str(messages[asked].text)), [one for one in messages if isinstance(one, AIMessage)]
    if results:
        return AIMessage(turn.answer(own[-1].additional_kwargs.get("then", []), results))
    turn.read()
    # Said once: at the beginning of a conversation, to a person of whom nothing is remembered. Whoever has had something
    # remembered has been told. A temporary conversation does not know who has.
    if not (turn.known or turn.closed == "temporary" or own):
        turn.say("stand_in")
    text = "" if turn.calls else turn.answer(turn.then, {})
    return AIMessage(text, tool_calls=turn.calls, additional_kwargs={"then": turn.then} if turn.calls else {})


class Turn:
    """One message of a person: what is said to it, and the tool calls that it takes."""

    def __init__(self, prompt: str, tools: set[str], text: str) -> None:
        self.tools, self.asked, self.lang = tools, text, "de" if _RULES["german"].search(text[:MAX_CHARS]) else "en"
        self.blocks = dict(re.findall(r"<(memory|policies|skills|temporary)>(.*?)</\1>", prompt, re.DOTALL))
        self.known = _remembered(self.blocks.get("memory", ""), self.lang)
        self.calls, self.then = list[dict[str, Any]](), list[dict[str, Any]]()
        paused = "paused" in prompt.partition("</memory>")[2].partition("\n<")[0]
        temporary = "temporary" in self.blocks and "memory" not in self.blocks
        # Why nothing can be written, or "".
        self.closed = "temporary" if temporary else "paused" if paused else "" if "append_memory" in tools else "read_only"

    def text(self, name: str, **slots: str) -> str:
        return str(_DATA["answers"][name][self.lang]).format_map(slots)

    def say(self, name: str, tool: str = "", args: dict[str, Any] | None = None, text: str = "", **slots: str) -> None:
        """Say this, once the tool has answered."""
        call: dict[str, Any] = {"name": tool, "args": args or {}, "id": f"offline-{uuid4()}", "type": "tool_call"}
        added = [of for of in self.calls if tool == of["name"] == "append_memory"]
        for call in added:  # the calls of one message run at once: new lines of one keep their order
            call["args"]["text"] += f"\n{(args or {})['text']}"
        self.calls += [call] if tool and not added else []
        said = {"text": text or self.text(name, **slots), "name": name, "lang": self.lang, "what": slots.get("what", "")}
        self.then.append({**said, "tool": tool, "call": call["id"]})

    def read(self) -> None:
        """Take the message sentence by sentence; of a fact that it has twice, the last."""
        for act in {(act.do, act.key): act for act in hear(self.asked)}.values():
            self.lang, do = act.lang, self.closed if act.do in _DATA["closed"].get(self.closed, []) else act.do
            getattr(self, _DATA["does"].get(do, ""), lambda _, do=do: self.say(do))(act)
        if not self.then:
            self.say("too_long" if len(self.asked) > MAX_CHARS else "what_to_remember", most=f"{MAX_CHARS:,}")

    def show(self, act: Heard) -> None:
        """List what is remembered, or a block of the prompt."""
        own = [of.text("answer", self.lang) if of.slots["path"] == PROFILE_PATH else of.slots["said"] for of in self.known]
        found = [f"- {text}" for text in own] if act.do == "known" else _RULES[act.do].findall(self.blocks.get(act.do, ""))
        self.say(act.do if found else f"no_{act.do}", lines="\n".join(found))

    def look_up(self, act: Heard) -> None:
        """Tell a fact, or quote what is remembered, or else search."""
        tool, none = _DATA["searches"][act.do]
        what = act.slots.get("what") or act.slots.get("thing") or ("" if act.do == "ask" else act.slots["said"])
        other, lines = _FACTS.get(act.name, {}).get("or"), self.matching(what)
        facts = [of for of in self.known if of.key == act.key] or [of for of in self.known if of.name == other]
        name = "told" if facts else "you_said" if lines else "no_search" if tool and tool not in self.tools else none
        said = facts[-1].text("answer", self.lang) if facts else ""
        tool = tool if tool in self.tools and (name == none or act.do == "recall") else ""
        self.say(name, tool, {"query": what}, said=said, lines=self.text("between").join(lines), what=what)

    def save(self, act: Heard) -> None:
        """Have something written: into the profile, in place of the line that it corrects, or as a new line."""
        what, field = act.slots["said"], _FACTS[act.name].get("field") if "save_profile" in self.tools else None
        begins = plain(what).split()[:2] if act.name == "correction" else []
        alike = [of for of in self.known if plain(of.slots["said"]).split()[:2] == begins]
        before = [of for of in self.known if of.key == act.key] or (alike if len(alike) == 1 else [])
        if plain(act.text("line", self.lang)) in [plain(of.text("line", self.lang)) for of in before]:
            self.say("already", said=what)
        elif field:
            self.say("saved", "save_profile", {"profile": {field: act.slots[field]}}, act.text("saved", self.lang))
        else:
            args = _edit(before[-1].slots, what) if before else {"path": _DATA["file"], "text": f"- {what}"}
            self.say("saved", "edit_file" if before else "append_memory", args, act.text("saved", self.lang))

    def forget(self, act: Heard) -> None:
        """Take out the one line that is meant, or the field of the profile."""
        what, (words, topic) = act.slots["what"], _meant(act.slots["what"])
        told = plain(_fact(what, self.lang).text("line", self.lang))
        exact = [of for of in self.known if plain(of.text("line", self.lang)) == told or of.key == topic]
        meant = exact or [of for of in self.known if content(what) and has(of.slots["said"], words)]
        lines = self.text("between").join(of.slots["said"] for of in meant)
        if len(meant) == 1:
            self.say("forgotten", "edit_file", _edit(meant[0].slots), said=lines)
        else:
            self.say("several" if meant else "not_known", lines=lines, said=what)

    def matching(self, asked: str) -> list[str]:
        """What is remembered with the most words of a question, if these are half of its words."""
        words = content(asked)
        scores = {of.slots["said"]: len(words & content(of.slots["said"])) for of in self.known}
        best = max([*scores.values(), (len(words) + 1) // 2, 1])
        return [text for text, score in scores.items() if score == best][:5]

    def answer(self, then: Sequence[dict[str, str]], results: dict[str, str]) -> str:
        """What to say once the tools have answered. Nothing is said to be written that was refused."""
        texts = dict[str, None]()
        for one in then:
            result, text, self.lang = results.get(one["call"], ""), one["text"], one["lang"]
            if one["tool"] == "search_past_conversations":
                text = self.talked(one["what"], result) or text
            elif one["tool"] == "search_memories" and (found := _RULES["found"].findall(result)):
                text = self.text("found", lines="\n\n".join(map(": ".join, found)))
            elif one["tool"] and not _RULES["done"].match(result):
                reason = result.removeprefix("Error: ")[:300] or "..."
                name = "paused" if PAUSED in result else "waits" if WAITS in result else "refused"
                text = self.text(name, reason=reason)
            texts[text] = None
        return "\n\n".join(texts)

    def talked(self, what: str, result: str) -> str:
        """What the person said in the conversations found, but questions, and what they have since taken back."""
        talks = sorted(_RULES["talks"].split(result), key=lambda talk: talk[:10])
        told = told_in((talk[:10], said) for talk in talks for said in _RULES["turn"].findall(talk)).values()
        asked = content(what) - content(_DATA["times"])
        said = [(on, text) for on, text, _ in told if not asked or asked & content(text)][-5:]
        return "\n\n".join(self.text("talked", date=on, said=text) for on, text in said)


def consolidate(prompt: str, results: list[str]) -> AIMessage:
    """Read the new conversations, then add their facts that memory lacks and that nobody took back. Of a text that was brought
    it adds the lines that memory lacks; in memory that is to be tidied it takes out lines that stand there twice.
    """
    turn, said = Turn(prompt, set(), ""), (said for result in results[:1] for said in _RULES["read_turn"].findall(result))
    told, known = told_in(("", of) for of in said), {of.key for of in turn.known}
    lines = [text for key, (_, text, kept) in told.items() if kept and key not in known]
    if results and (brought := _RULES["brought"].search(results[0])):
        there = {plain(of.slots["said"]) for of in turn.known}
        lines = [line for line in dict.fromkeys(_lines_of(brought[1])) if plain(line) not in there]
    doubles = list(_doubles(results[0]))[:_MOST_DOUBLES] if results and results[0].startswith("## /memories/") else []
    for args in doubles[len(results) - 1 :][:1]:  # one after the other: deepagents refuses two changes of a file at once
        turn.say("told", "edit_file", args, said="")
        return AIMessage("", tool_calls=turn.calls)
    new = "\n".join(f"- {line}" for line in lines)
    tool = "append_memory" if new and len(results) == 1 else "" if results else "search_recent_conversations"
    turn.say("told", tool, {"path": _DATA["file"], "text": new} if results else {}, said="")
    return AIMessage("" if turn.calls else "Done.", tool_calls=turn.calls)


def _lines_of(text: str) -> Iterator[str]:
    """The lines of a text; of JSON, the texts in it."""
    try:
        values = [json.loads(text)]
    except (ValueError, RecursionError):
        yield from (line[1].strip() for line in _RULES["line"].finditer(text) if not line[1].rstrip().endswith(":"))
        return
    while values:
        if isinstance(value := values.pop(0), str):
            yield " ".join(value.split())
        elif isinstance(value, dict | list):
            values[:0] = value.values() if isinstance(value, dict) else value


def _doubles(memory: str) -> Iterator[dict[str, str]]:
    """What `edit_file` takes to take out each line that stood before, in the same words."""
    seen, parts = set[str](), _RULES["file"].split(memory.partition("\n\n# Taken back")[0])[1:]
    for path, file in zip(parts[::2], map(str.strip, parts[1::2]), strict=True):
        lines = [] if path.endswith((".json", "/index.md")) else file.split("\n")
        for at, line in enumerate(lines):
            words, beside = plain(line), lines[at - 1] if at else "".join(lines[1:2])
            if words in seen and beside and not line.startswith(("#", "[")):
                old = f"{beside}\n{line}" if at else f"{line}\n{beside}"
                yield {"file_path": path, "old_string": old, "new_string": beside}
            seen |= {words} - {""}


def told_in(said: Iterable[tuple[str, str]]) -> dict[str, tuple[str, str, bool]]:
    """What a person told in these texts and did not take back, the last of each fact: date, text, whether it is for memory."""
    told = dict[str, tuple[str, str, bool]]()
    for date, act in ((date, act) for date, text in said for act in hear(text)):
        if act.do == "forget":
            words, topic = _meant(act.slots["what"])
            told = {key: of for key, of in told.items() if key != topic and not has(of[1], words)}
        elif act.do in _DATA["told"]:
            told[act.key] = date, act.slots["said"], _DATA["told"][act.do]
    return told


def hear(text: str) -> list[Heard]:
    """What each sentence of a message says. Of a message that is too long, nothing."""
    acts, sentences = list[Heard](), _RULES["sentence"].split(_RULES["greeted"].sub(r"\1, ", text.strip()))
    for sentence in sentences if len(text) <= MAX_CHARS else []:
        line = _RULES["verb_last"].sub(r"\1\2 \4 \3\5", " ".join(_RULES["bullet"].sub("", sentence).split()))
        asks = _ASKED + _ASK + (_QUESTIONS if line.endswith("?") or _RULES["question"].match(line) else [])
        heard = [act] if (act := first(asks, line)) else [first(_SAID + _STATED, of) for of in _RULES["clauses"].split(line)]
        acts += [_fact(of.slots["what"], of.lang) if of.do == "remember" else of for of in heard if of]
    return acts


def first(table: list[Any], sentence: str) -> Heard | None:
    """The first pattern that a sentence matches as it is, without what leads to it, or turned ("Jetzt wohne ich in Rom")."""
    bare = _RULES["lead"].sub("", _RULES["corrected"].sub("", sentence))
    forms = [form.rstrip(".!?\u2026 ") for form in (sentence, bare, _RULES["inverted"].sub(r"ich \1 \2", bare))]
    matches = ((rule, rule[3].fullmatch(form)) for rule in table for form in dict.fromkeys(forms) if len(form) <= MAX_CHARS)
    return next((Heard._make((*of[:3], {**match.groupdict(""), "said": forms[-1]})) for of, match in matches if match), None)


def _fact(text: str, lang: str) -> Heard:
    return first(_SAID, text) or Heard("said", "line", lang, {"said": text})


def _meant(what: str) -> tuple[str, str]:
    """What is to be forgotten: its words, and the key of the fact that they name."""
    return _RULES["determiner"].sub("", what), topic.key if (topic := first(_TOPIC, what)) else ""


def _edit(at: dict[str, str], new: str = "") -> dict[str, str]:
    """What `edit_file` takes to replace a line, or to take it out with a line break; or the whole, if the `rest` is known."""
    line, file = at.get("line", at["file"]), at["file"]
    old = next((one for one in (f"\n{line}", f"{line}\n") if file != line and f"{file}\n".count(one) == 1), line)
    put = old.replace(line, line.replace(at["said"], new)) if new else ""
    return {"file_path": at["path"], "old_string": old, "new_string": at.get("rest") or put}


def has(line: str, words: str) -> bool:
    return f" {plain(words)} " in f" {plain(line)} "


def plain(text: str) -> str:
    return " ".join(_DATA["same"].get(word, word) for word in re.findall(r"\w+", text.lower()))


def content(text: str) -> set[str]:
    """The words that a text is about, by their beginnings."""
    return {word[:5] for word in plain(text).split() if len(word) > 1 and f" {word} " not in f" {_DATA['stop']} "}


def _remembered(memory: str, lang: str) -> list[Heard]:
    """The remembered lines; of the profile, its fields. A heading, and what says what is left out, are no lines."""
    known, parts = list[Heard](), _RULES["file"].split(memory)[1:]
    for path, file in zip(parts[::2], map(str.strip, parts[1::2]), strict=True):
        profile = json.loads(file) if path == PROFILE_PATH and file.startswith("{") and file.endswith("}") else {}
        for name in (of for of in profile if profile[of] is not None):
            rest = json.dumps({of: profile[of] for of in profile if of != name}, ensure_ascii=False, indent=2)
            at = {name: str(profile[name]), "path": path, "file": file, "rest": rest, "said": f"{name}: {profile[name]}"}
            fact = Heard("said", name if _FACTS.get(name, {}).get("field") else "line", lang, at)
            known.append(fact._replace(slots={**at, "said": fact.text("line", lang)}))
        for line in _RULES["line"].finditer("" if profile else file):
            fact, at = _fact(line[1], lang), {"path": path, "file": file, "line": line[0], "said": line[1].strip()}
            known.append(fact._replace(slots={**fact.slots, **at}))
    return sorted(known, key=lambda of: of.slots["path"] != PROFILE_PATH)
