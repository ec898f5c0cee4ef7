"""The agent as deployed, with tools that ask, those of docs/questions.md among them: what the
server under test loads.
"""

import json
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any, Literal

from agent import WRITER
from deepagents import create_deep_agent
from deployment import DEPLOYMENT
from langchain_core.language_models import BaseChatModel
from langgraph.types import interrupt

from lasting_memory import (
    Context,
    Deployment,
    build_model,
    file_system,
    memory_tools,
    middleware,
    skills,
    subagents,
)

_PAGE = (Path(__file__).parents[2] / "docs" / "questions.md").read_text("utf-8")
_EXAMPLE = re.search(r"```python\n(.*?)```", _PAGE, re.DOTALL)
assert _EXAMPLE
_NAMES: dict[str, Any] = {}
exec(_EXAMPLE[1], _NAMES)  # noqa: S102  # the page's own example
# How often each thing was cleared on this server.
_TIMES = Counter[str]()


def ask(question: Any) -> str:
    """Ask whatever it is."""
    return json.dumps(interrupt(question))


def choose(question: str) -> str:
    """Ask for one of two colors."""
    color: Any = Literal["red", "blue"]
    return str(interrupt(question, response_schema=color))


def cleared(what: str) -> str:
    """Clears something, which an operator approves. Its answer says how often it was cleared."""
    _TIMES[what] += 1
    return f"cleared {what}, {_TIMES[what]} times"


def moved(place: str) -> str:
    """Moves something, which an operator approves: it says in a file that it begins, and ends when
    another one is there.
    """
    with Path(place, "begun").open("a") as begun:
        begun.write("x")
    ends = time.monotonic() + 300
    while not Path(place, "end").exists() and time.monotonic() < ends:
        time.sleep(0.05)
    return "moved"


def build_agent(d: Deployment = DEPLOYMENT, model: BaseChatModel | None = None) -> Any:
    """The agent with these tools, which its subagents have, too."""
    return create_deep_agent(
        model=model or build_model(d),
        tools=[
            *memory_tools(d),
            ask,
            choose,
            cleared,
            moved,
            _NAMES["ask_person"],
            _NAMES["send_mail"],
        ],
        **file_system(d, interrupt_on={"cleared": True, "moved": True}),
        middleware=middleware(d, skills(d)),
        subagents=subagents(d, WRITER),
        context_schema=Context,
    )


agent = build_agent()
