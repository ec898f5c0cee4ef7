"""Recall does not feed itself: what asks for the past, or repeats it, is not found in place of what
told it.
"""

# ruff: noqa: RUF001  # other scripts are meant
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from lasting_memory.consolidation.due import find_due
from lasting_memory.consolidation.owners import Owner
from lasting_memory.people import namespaces
from lasting_memory.recall import format as formats
from lasting_memory.recall import repetition, search
from lasting_memory.recall.answers import page_text, results_text
from lasting_memory.recall.catching_up import catch_up
from lasting_memory.recall.threads import conversation
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.platform import Platform
from lasting_memory.testing.stores import INDEX
from tests.recall.talks import ALICE, NOW, hits, human, say

Message = dict[str, Any]


def answer(text: str) -> Message:
    return {"type": "ai", "id": f"answer {text[:20]}", "content": text}


def looked_up(name: str, result: str, number: str = "1", **args: Any) -> list[Message]:
    """A tool call and its result."""
    call = {"name": name, "args": args, "id": f"call-{number}", "type": "tool_call"}
    result_message = {
        "type": "tool",
        "id": f"result-{number}",
        "tool_call_id": f"call-{number}",
        "content": result,
    }
    return [
        {"type": "ai", "id": f"calls-{number}", "content": "", "tool_calls": [call]},
        {**result_message, "name": name},
    ]


def put(threads: Platform, thread_id: str, *messages: Message, days: float) -> None:
    threads.put(ALICE, thread_id, (NOW - timedelta(days)).isoformat(), messages)


STATEMENT = "My spare key is with the neighbour called Ottilie."
SAME = ["What did we say about the spare key?"]
VARIED = [
    "Where is my spare key?",
    "Who has the spare key again, the neighbour?",
    "Remind me about my spare key and the neighbour",
    "I forgot who has my spare key. Can you tell me?",
    "spare key??",
    "Hi! Do you still know what I told you about my spare key, the one that is with the neighbour?",
]
LINE = f"2026-05-01 thread_id=told\n  1. user: {STATEMENT}"
TOOLS: dict[str, dict[str, Any]] = {
    "search_past_conversations": {"query": "spare key", "alternatives": ["neighbour", "lock"]},
    "search_memories": {"query": "spare key"},
    "read_file": {"file_path": "/memories/topics/home.md"},
}


def ask(
    threads: Platform,
    count: int,
    questions: Sequence[str],
    said: str,
    tool: str = "search_past_conversations",
) -> None:
    """So many conversations that ask for the key, newer than all others."""
    for number in range(count):
        question = questions[number % len(questions)]
        looked = looked_up(tool, LINE, **TOOLS[tool])
        put(
            threads,
            f"asked-{number}",
            human(question),
            *looked,
            answer(said),
            days=1 - number / 1_000,
        )


def tell(threads: Platform, *, within: int = 0) -> None:
    """The conversation that told it, by itself or within so many turns about something else, in a
    long paragraph.
    """
    other = "We talked about gardens, roofs and the weather of {}, and which of the trains would be late that evening. "
    talk = [human(f"{number} {other.format(number)}") for number in range(within)]
    talk[within // 2 : within // 2] = [human((other.format(0) * 2 if within else "") + STATEMENT)]
    put(threads, "told", *talk, days=12)
    for number in range(5):
        say(
            threads,
            f"other-{number}",
            f"The key of the piano piece {number} is minor",
            "How is the house?",
            days=9,
        )


REPEATED = STATEMENT.replace("My", "Your")


@pytest.mark.parametrize("within", [0, 60], ids=["alone", "within a long conversation"])
@pytest.mark.parametrize("said", [
    "I found nothing about that.",
    REPEATED,
    f"{REPEATED} " * 3 + "She is the neighbour who keeps the spare key for you. " * 8,
], ids=["found nothing", "repeated", "repeated at length"])  # fmt: skip
@pytest.mark.parametrize("questions", [SAME, VARIED], ids=["same words", "varied"])
async def test_conversations_that_only_asked_do_not_push_out_the_one_that_told(
    questions: list[str], said: str, within: int
) -> None:
    await told_is_found(30, questions, said, within)


async def test_a_conversation_that_told_is_found_among_more_that_asked_than_are_ranked() -> None:
    await told_is_found(150, [*SAME, *VARIED], REPEATED, 60)


async def told_is_found(count: int, questions: list[str], said: str, within: int) -> None:
    store, threads = InMemoryStore(), Platform()
    tell(threads, within=within)
    ask(threads, count, questions, said)
    await catch_up(store, threads, ALICE, agents=["agent"])
    for query in [*questions, "the spare key", "Ottilie"]:
        assert "told" in await hits(store, threads, query, limit=3), query
        assert "told" in await hits(
            store, threads, query, limit=3, alternatives=["neighbour", "door", "lock"]
        ), query
    results = await search(
        store, threads, ALICE, "spare key", 12, agents=["agent"], today=NOW.date()
    )
    assert STATEMENT in results_text("spare key", results)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("index", [None, INDEX], ids=["words", "words and meaning"])
async def test_a_conversation_that_told_is_found_whichever_tool_looked_it_up(
    tool: str, index: Any
) -> None:
    store, threads = InMemoryStore(index=index), Platform()
    tell(threads)
    ask(threads, 30, [*SAME, *VARIED[:3]], STATEMENT.replace("My", "Your"), tool)
    for query in [*SAME, *VARIED[:3]]:
        assert "told" in await hits(store, threads, query, limit=3), query


@pytest.mark.parametrize(("statement", "question"), [
    ("我的备用钥匙在邻居奥蒂莉那里。", "我们之前说过备用钥匙的什么？"),
    ("予備の鍵は隣のオティーリエさんに預けました。", "予備の鍵について何と言いましたか"),
    ("مفتاحي الاحتياطي عند الجارة أوتيلي.", "ماذا قلنا عن المفتاح الاحتياطي؟"),
    ("Мой запасной ключ у соседки Оттилии.", "Что мы говорили про запасной ключ?"),
    ("Το εφεδρικό κλειδί είναι στη γειτόνισσα Οτίλια.", "Τι είπαμε για το εφεδρικό κλειδί;"),
], ids=["zh", "ja", "ar", "ru", "el"])  # fmt: skip
async def test_a_conversation_that_told_is_found_in_any_script(
    statement: str, question: str
) -> None:
    store, threads = InMemoryStore(), Platform()
    put(threads, "told", human(statement), days=12)
    for number in range(30):
        looked = looked_up("search_past_conversations", f"told: {statement}", query=question)
        put(
            threads,
            f"asked-{number}",
            human(question),
            *looked,
            answer(statement),
            days=1 - number / 1_000,
        )
    assert "told" in await hits(store, threads, question, limit=3)


async def test_a_conversation_that_told_is_found_by_meaning_alone() -> None:
    store, threads = InMemoryStore(index=INDEX), Platform()
    put(threads, "told", human("Our puppy sleeps in the attic"), days=12)
    for number in range(60):
        looked = looked_up(
            "search_past_conversations", "told: Our puppy sleeps in the attic", query="pet"
        )
        put(
            threads,
            f"asked-{number}",
            human("Where does my pet sleep at night?"),
            *looked,
            answer("?"),
            days=1,
        )
    assert "told" in await hits(store, threads, "pet at night", limit=3)
    embedded = await store.asearch(namespaces.recall(ALICE, "texts"), limit=1_000)
    assert [item.value["text"] for item in embedded if "text" in item.value] == [
        "user: Our puppy sleeps in the attic"
    ]


@pytest.mark.parametrize("question", [
    "What did we say about the key? By the way, it is now with Bob in the bakery.",
    "By the way, the key is now with Bob in the bakery\nWhat did we say about the key?",
    "The key is now with Bob in the bakery, so forget what we said about it.",
])  # fmt: skip
async def test_news_beside_a_question_stay_findable(question: str) -> None:
    store, threads = InMemoryStore(), Platform()
    tell(threads)
    ask(threads, 30, [*SAME, *VARIED], "I found nothing.")
    looked = looked_up("search_past_conversations", LINE, query="key")
    put(threads, "news", human(question), *looked, answer("I see."), days=2)
    assert (await hits(store, threads, "bakery"))[0] == "news"
    assert "news" in await hits(store, threads, "Is the key with Bob?", limit=12)


async def test_a_statement_counts_in_full_where_the_agent_looked_something_up_to_remember_it() -> (
    None
):
    store, threads = InMemoryStore(), Platform()
    read = looked_up("read_file", "- likes tea", "1", file_path="/memories/topics/home.md")
    noted = looked_up("append_memory", "Added.", "2", path="/memories/topics/home.md", text="x")
    put(threads, "told", human(STATEMENT), *read, *noted, answer("Noted."), days=3)
    put(
        threads,
        "asked",
        human("Tell me of the spare key"),
        *read,
        answer("I found nothing."),
        days=0,
    )
    assert (await hits(store, threads, "spare key"))[0] == "told"


LOOKED_UP = [
    ("search_past_conversations", {"query": "quetzal"}),
    ("read_conversation", {"thread_id": "quetzal"}),
    ("search_memories", {"query": "quetzal"}),
    ("read_file", {"file_path": "/memories/quetzal.md"}),
    ("read_file", {"file_path": "memories/../memories//quetzal.md", "offset": 0}),
    ("read_file", {"file_path": "/skills/quetzal/SKILL.md"}),
    ("read_file", {"file_path": "/team/quetzal.md"}),
    ("read_file", {"file_path": "/large_tool_results/quetzal"}),
    ("ls", {"path": "/memories/topics"}),
    ("ls", {"path": "/"}),
    ("grep", {"pattern": "quetzal"}),
    ("grep", {"pattern": "quetzal", "path": "/memories"}),
    ("glob", {"pattern": "/memories/**/quetzal*"}),
    ("glob", {"pattern": "**/quetzal*", "path": "/"}),
]


@pytest.mark.parametrize(("name", "args"), LOOKED_UP, ids=str)
async def test_calls_and_results_that_repeat_memory_are_no_turns(
    name: str, args: dict[str, Any]
) -> None:
    threads, store, routes = (
        Platform(),
        InMemoryStore(index=INDEX),
        ["/memories/", "/skills/", "/policies/", "/team/"],
    )
    put(
        threads,
        "t",
        human("hello"),
        *looked_up(name, "a quetzal with feathers", **args),
        answer("Hello."),
        days=1,
    )
    assert await hits(store, threads, "quetzal", routes=routes) == []
    assert await hits(store, threads, "feathers", routes=routes) == []
    items = await store.asearch(namespaces.recall(ALICE, "texts"), limit=100)
    assert "quetzal" not in str([item.value for item in items])
    talk = conversation(threads.kept["t"], routes=routes)
    assert [(turn.speaker, turn.text) for turn in talk.turns] == [
        ("user", "hello"),
        ("assistant", "Hello."),
    ]
    assert "quetzal" not in page_text(talk, None)
    (due,) = await find_due(deployed(), threads, store, Owner(ALICE))  # type: ignore[arg-type]
    assert "quetzal" not in due.transcript()


@pytest.mark.parametrize(("name", "args"), [
    ("read_file", {"file_path": "/notes/quetzal.md"}),
    ("grep", {"pattern": "quetzal", "path": "/notes"}),
    ("glob", {"pattern": "/notes/quetzal*"}),
    ("web_search", {"query": "quetzal"}),
    ("append_memory", {"path": "/memories/birds.md", "text": "quetzal"}),
], ids=str)  # fmt: skip
async def test_arguments_and_results_of_other_calls_are_still_found(
    name: str, args: dict[str, Any]
) -> None:
    store, threads = InMemoryStore(), Platform()
    put(
        threads, "t", human("hello"), *looked_up(name, "feathers", **args), answer("Hello."), days=1
    )
    assert await hits(store, threads, "quetzal") == ["t"]
    assert await hits(store, threads, "feathers") == ["t"]


async def test_a_subagent_s_report_is_found_by_its_task_alone() -> None:
    store, threads = InMemoryStore(), Platform()
    put(
        threads,
        "t",
        human("hello"),
        *looked_up("task", "a quetzal", description="find my bird"),
        answer("Hello."),
        days=1,
    )
    assert await hits(store, threads, "quetzal") == []
    assert await hits(store, threads, "bird") == ["t"]


async def test_the_words_of_a_deleted_conversation_go_but_for_what_an_assistant_said_elsewhere(
    store: BaseStore,
) -> None:
    threads = Platform()
    tell(threads)
    ask(threads, 16, [*SAME, *VARIED], "I found it.")
    assert (await hits(store, threads, "Ottilie")) == ["told"]
    threads.remove("told")
    assert await hits(store, threads, "Ottilie") == []
    looked = looked_up("search_past_conversations", LINE, query="key")
    put(threads, "again", human(SAME[0]), *looked, answer("It is with Ottilie."), days=0)
    found = (await search(store, threads, ALICE, "Ottilie", 5, agents=["agent"])).matches
    assert [item.conversation.thread_id for item in found] == ["again"]
    assert [turn.text for turn in found[0].conversation.turns if "Ottilie" in turn.text] == [
        "It is with Ottilie."
    ]


async def test_conversations_that_were_indexed_before_are_indexed_again(
    store: BaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = Platform()
    put(
        threads,
        "t",
        human("hello"),
        *looked_up("search_memories", "a quetzal", query="bird"),
        answer("Hello."),
        days=1,
    )
    with monkeypatch.context() as before:
        before.setattr(formats, "FORMAT", formats.FORMAT - 1)
        before.setattr(repetition, "repeats", lambda *_: False)
        before.setattr(repetition, "result_repeats", lambda *_: False)
        assert await hits(store, threads, "quetzal") == ["t"]
    assert await hits(store, threads, "quetzal") == []


# The agent remembers: it answers from the memory in its prompt, and calls no tool.
PAPERS = "Remember that my insurance papers are kept at the notary Brindlemoor."
KNOWN = "Your insurance papers are kept at the notary Brindlemoor."
EVERYTHING = "You have a dog named Pixel, you work as a baker, and your insurance papers are kept at the notary Brindlemoor."
ASKED = {
    "same": ["Where are my insurance papers kept?"],
    "varied": [
        "Where are my insurance papers kept?",
        "Do you remember where my insurance papers are?",
        "Insurance papers, where?",
        "Can you remind me who keeps the insurance papers for me, the notary?",
        "Hi! I need my insurance papers. Where did I put them?",
        "At which notary are my insurance papers?",
    ],
    "without a mark": [
        "where are my insurance papers kept",
        "where are my insurance papers",
        "insurance papers",
    ],
    "about everything": ["What do you know about me?"],
}


def answer_from_the_prompt(
    threads: Platform,
    questions: Sequence[str],
    answers: Sequence[str],
    *,
    count: int = 30,
    seconds: float = 0,
) -> None:
    """So many conversations that ask, newer than all others; so many seconds apart, or else some
    minutes.
    """
    for number in range(count):
        messages = [
            human(questions[number % len(questions)]),
            answer(answers[number % len(answers)]),
        ]
        apart = seconds / 86_400 or 1 / 1_000
        put(threads, f"from-prompt-{number}", *messages, days=0.2 - number * apart)


@pytest.mark.proof
@pytest.mark.parametrize("index", [None, INDEX], ids=["words", "words and meaning"])
@pytest.mark.parametrize("days", [12, 0.21], ids=["days before", "on the same day"])
@pytest.mark.parametrize("answers", [
    [KNOWN],
    ["I cannot answer that."],
    ["I have no information about your insurance papers."],
    [KNOWN, EVERYTHING, f"Sure! {KNOWN} Shall I remind you of anything else?"],
], ids=["repeated", "cannot answer", "knows nothing", "repeated in other words"])  # fmt: skip
@pytest.mark.parametrize("questions", ASKED)
async def test_a_question_answered_without_a_tool_does_not_push_out_the_one_that_told(
    questions: str, answers: list[str], days: float, index: Any
) -> None:
    store, threads = InMemoryStore(index=index), Platform()
    put(threads, "told", human(PAPERS), answer("I will remember that."), days=days)
    answer_from_the_prompt(threads, ASKED[questions], answers, seconds=10)
    searched = [
        "insurance papers",
        "Where are my insurance papers kept?",
        "notary Brindlemoor",
        *ASKED[questions],
    ]
    for query in searched:
        if query not in ASKED["about everything"]:
            assert "told" in await hits(store, threads, query, limit=3), query
            assert "told" in await hits(
                store, threads, query, limit=3, alternatives=["documents", "policy"]
            ), query


async def test_a_conversation_that_told_is_found_among_many_answers_without_a_tool() -> None:
    store, threads = InMemoryStore(), Platform()
    put(threads, "told", human(PAPERS), days=12)
    answer_from_the_prompt(threads, ASKED["same"], [KNOWN], count=150)
    await catch_up(store, threads, ALICE, agents=["agent"])
    for query in ["insurance papers", "where did I put the insurance papers", *ASKED["same"]]:
        assert "told" in await hits(store, threads, query, limit=3), query


async def test_a_correction_is_found_beside_what_it_corrects() -> None:
    store, threads = InMemoryStore(), Platform()
    put(threads, "told", human(PAPERS), answer("Noted."), days=12)
    answer_from_the_prompt(threads, ASKED["varied"], [KNOWN])
    put(
        threads,
        "corrected",
        human("Actually the insurance papers are now at the bank."),
        answer("Noted."),
        days=0.1,
    )
    for number in range(30):
        asks = human(ASKED["varied"][number % 6])
        put(
            threads,
            f"after-{number}",
            asks,
            answer("Your insurance papers are at the bank."),
            days=0.05,
        )
    for query in ["insurance papers", ASKED["same"][0]]:
        assert {"told", "corrected"} <= set(await hits(store, threads, query, limit=3)), query
    assert (await hits(store, threads, "insurance papers bank"))[0] == "corrected"


@pytest.mark.parametrize("mark", [True, False], ids=["with a mark", "without a mark"])
@pytest.mark.parametrize(("statement", "question", "repeated"), [
    ("मेरे बीमा के कागज़ात नोटरी ब्रिंडलमूर के पास रखे हैं।",
     "मेरे बीमा के कागज़ात कहाँ रखे हैं?", "आपके बीमा के कागज़ात नोटरी ब्रिंडलमूर के पास रखे हैं।"),
    ("أوراق التأمين محفوظة عند كاتب العدل برندلمور.",
     "أين أوراق التأمين محفوظة؟", "أوراق التأمين محفوظة عند كاتب العدل برندلمور."),
    ("我的保险文件放在公证人布林德莫尔那里。", "我的保险文件放在哪里？", "你的保险文件放在公证人布林德莫尔那里。"),
    ("Meine Versicherungspapiere liegen beim Notar Brindlemoor.", "Wo liegen meine Versicherungspapiere?",
     "Deine Versicherungspapiere liegen beim Notar Brindlemoor."),
    (PAPERS, ASKED["same"][0], KNOWN),
], ids=["hi", "ar", "zh", "de", "en"])  # fmt: skip
async def test_a_conversation_that_told_is_found_in_any_script_without_a_tool(
    statement: str, question: str, repeated: str, mark: bool
) -> None:
    store, threads = InMemoryStore(), Platform()
    put(threads, "told", human(statement), days=12)
    asks = question if mark else question[:-1]
    answer_from_the_prompt(threads, [asks], [repeated, "…"])
    assert "told" in await hits(store, threads, asks, limit=3)
    assert "told" in await hits(store, threads, question, limit=3)


async def test_a_person_s_question_and_its_answer_stay_findable() -> None:
    store, threads = InMemoryStore(), Platform()
    put(
        threads,
        "party",
        human("There was wine at the party, and my shirt has stains."),
        answer("Oh no."),
        days=9,
    )
    advice = (
        "Blot the wine stains with a cloth, then use salt and soda water, and wash it cold. " * 6
    )
    put(
        threads,
        "asked",
        human("How do I get wine stains out of a white shirt?"),
        answer(advice),
        days=5,
    )
    for query in [
        "wine stains",
        "how to get wine stains out of a white shirt",
        "salt and soda water",
    ]:
        assert "asked" in await hits(store, threads, query, limit=2), query
