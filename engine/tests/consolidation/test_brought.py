"""What people bring along from other assistants is read whole: each published form, every script,
and nothing hostile.
"""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lasting_memory.consolidation import guard
from lasting_memory.consolidation.brought import (
    MAX_ENTRIES,
    MAX_ENTRY_CHARS,
    Brought,
    Entry,
    Part,
    UnreadableError,
    counted,
    parts,
    read,
    text_of_entries,
)
from lasting_memory.consolidation.facts import is_plain, line_words_of
from lasting_memory.memory.proposals import Changed

FACTS = {
    "Chinese": [
        "我住在北京",
        "我不吃鱼",
        "每周二和安娜打网球",
        "我女儿叫小雨，今年七岁",  # noqa: RUF001
        "项目“红隼”于2027年5月3日上线",
    ],
    "Japanese": [
        "東京に住んでいます",
        "緑茶が好きです",
        "犬を二匹飼っている",
        "ＡＢＣ株式会社で働いている",
        "毎朝6時に起きる",
    ],
    "Hindi": [
        "मैं दिल्ली में रहता हूँ",
        "मुझे मसालेदार खाना पसंद नहीं है",
        "मेरी बेटी का नाम आन्या है",
        "मैं ५ बजे उठता हूँ",
    ],
    "Arabic": [
        "أعيش في القاهرة",
        "لا آكل السمك",
        "اسم ابنتي ليلى وعمرها ٧ سنوات",  # noqa: RUF001
        "أعمل مُهندسًا في شركة",
    ],
    "German": [
        "Wohnt in München, Straße der Künste 7",
        "Mag keinen Fisch",
        "Heißt Jürgen Groß",
        "Arbeitet bei Müller & Söhne",
    ],
    "Turkish": ["Ankara'da, İstanbul Caddesi'nde yaşıyor", "Balık yemez", "Kızının adı Işıl"],  # noqa: RUF001
    "Persian": ["می‌خواهم فارسی یاد بگیرم", "در تهران زندگی می‌کنم", "دو سگ دارم"],
    "Thai": ["อาศัยอยู่ที่กรุงเทพ", "ไม่กินปลา", "ลูกสาวชื่อน้ำ"],
    "English": [
        "Has a dog called Rufus",
        "Doesn't eat fish",
        "Lives at 7 O'Connell St.",
        'Uses "metric" units',
    ],
}
# Words of letters of many scripts, with combining marks and joiners, but nothing that is a mark of
# Markdown, JSON or HTML.
WORDS = st.text(st.characters(categories=["L", "M", "Nd"]), min_size=1, max_size=12).filter(
    lambda word: word[0].isalpha()
)
SENTENCES = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)
LISTS = st.lists(
    SENTENCES, min_size=1, max_size=8, unique_by=lambda text: line_words_of(f"- {text}")
)


def texts(brought: Brought) -> list[str]:
    return [entry.text for entry in brought.entries]


def lines(text: str) -> list[str]:
    return [entry.line for entry in read(text).entries]


def read_or_refused(text: str) -> Brought:
    """What a text holds; nothing where it is refused, which is said in one line."""
    try:
        return read(text)
    except UnreadableError as error:
        if "\n" in str(error):
            raise
        return Brought()


def message(role: str, text: str, **more: Any) -> dict[str, Any]:
    return {
        "id": "m", "author": {"role": role, "name": None, "metadata": {}}, "create_time": 1714557600.5, "recipient": "all",
        "content": {"content_type": "text", "parts": [text]}, "metadata": {}, **more,
    }  # fmt: skip


def chatgpt(said: list[str]) -> str:
    """A `conversations.json` of ChatGPT: the tree of a conversation, with a branch that was edited
    away.
    """
    nodes: dict[str, Any] = {
        "root": {"id": "root", "message": None, "parent": None, "children": ["a0", "gone"]}
    }
    last = "root"
    for number, text in enumerate(said):
        for role, name in (
            ("user", f"a{number}"),
            ("assistant", f"b{number}"),
            ("tool", f"c{number}"),
        ):
            nodes[name] = {
                "id": name,
                "parent": last,
                "children": [],
                "message": message(role, f"{text}" if role == "user" else "x"),
            }
            nodes[last]["children"].append(name)
            last = name
    nodes["gone"] = {
        "id": "gone",
        "parent": "root",
        "children": [],
        "message": message("user", "edited away"),
    }
    talk = {
        "title": "A talk",
        "create_time": 1714557600.0,
        "mapping": nodes,
        "current_node": last,
        "id": "1",
        "gizmo_id": None,
    }
    return json.dumps([talk])


def claude(said: list[str]) -> str:
    """A `conversations.json` of Claude."""
    messages = []
    for text in said:
        for sender in ("human", "assistant"):
            shown_text = text if sender == "human" else "x"
            messages.append({
                "uuid": "u", "sender": sender, "text": shown_text, "created_at": "2024-05-01T10:00:00.123456Z", "files": [],
                "content": [{"type": "text", "text": shown_text}, {"type": "tool_use", "name": "t", "input": {"text": "no"}}],
            })  # fmt: skip
    return json.dumps(
        [
            {
                "uuid": "1",
                "name": "A talk",
                "created_at": "2024-05-01T10:00:00Z",
                "chat_messages": messages,
            }
        ]
    )


def gemini(said: list[str]) -> str:
    """Gemini's activity of Google Takeout, as JSON: titles are HTML."""
    items = [
        {
            "header": "Gemini Apps", "title": f"Prompted {text.replace('&', '&amp;').replace(chr(39), '&#39;')}",
            "time": "2024-05-01T10:00:00.000Z", "products": ["Gemini Apps"], "safeHtmlItem": [{"html": "<p>x</p>"}],
        } for text in said
    ]  # fmt: skip
    return json.dumps(
        [
            *items,
            {
                "header": "Gemini Apps",
                "title": "Used Gemini Apps",
                "time": "2024-05-01T10:00:00.000Z",
            },
        ]
    )


def gemini_page(said: list[str]) -> str:
    """The same as HTML."""
    cells = "".join(
        f'<div class="content-cell mdl-cell">Prompted&nbsp;{text.replace("&", "&amp;")}<br>'
        "May 1, 2024, 10:00:00\u202fAM CET<br>"
        f"<p>The answer</p></div>" for text in said
    )  # fmt: skip
    return f"<html><head><title>My Activity</title><style>p {{}}</style></head><body>{cells}</body></html>"


MESSAGES = {"ChatGPT": chatgpt, "Claude": claude, "Gemini": gemini, "Gemini's page": gemini_page}
LISTED: dict[str, Any] = {
    "lines": "\n".join,
    "a list": lambda facts: "\r\n".join(f"- {fact}" for fact in facts),
    "a numbered list": lambda facts: "\n".join(f"{number}. {fact}" for number, fact in enumerate(facts, 1)),
    "bold headings": lambda facts: "**Work context**\n\n" + "\n\n".join(facts) + "\n\n---\n",
    "a code block": lambda facts: "Here you go.\n\n```\n" + "\n".join(facts) + "\n```",
    "JSON": json.dumps,
    "JSON with its letters": lambda facts: json.dumps(facts, ensure_ascii=False, indent=2),
    "JSON in a code block": lambda facts: f"```json\n{json.dumps(facts)}\n```",
    "memories": lambda facts: json.dumps([{"id": "1", "memory": fact, "score": 0.5} for fact in facts]),
    "fields": lambda facts: json.dumps({"results": [{"content": fact} for fact in facts]}),
    "JSON lines": lambda facts: "\n".join(json.dumps({"text": fact}) for fact in facts),
    "Claude's memory": lambda facts: json.dumps(
        [{"conversations_memory": "**About**\n\n" + "\n".join(facts), "account_uuid": "1"}]
    ),
    "HTML": lambda facts: "<ul>" + "".join(f"<li>{each.replace('&', '&amp;')}</li>" for each in facts) + "</ul>",
    "entities": lambda facts: "\n".join(fact.replace("&", "&amp;").replace("'", "&#39;") for fact in facts),
    "a BOM": lambda facts: "\ufeff" + "\n".join(facts),
}  # fmt: skip


@pytest.mark.parametrize("language", FACTS)
@pytest.mark.parametrize("form", LISTED)
def test_every_line_of_every_form_is_found_and_none_counts_as_invented(
    form: str, language: str
) -> None:
    facts = FACTS[language]
    brought = read(LISTED[form](facts))
    assert texts(brought) == [" ".join(fact.split()) for fact in facts]
    source = [("", text_of_entries(brought.entries))]
    written = Changed("/topics/me.md", "", "".join(f"- {fact}\n" for fact in facts))
    assert guard.invented([written], source) == {}
    assert guard.objection([written], {}) is None


@pytest.mark.parametrize("language", FACTS)
@pytest.mark.parametrize("form", MESSAGES)
def test_an_exported_conversation_is_read_for_the_person_s_messages_alone(
    form: str, language: str
) -> None:
    found = read(MESSAGES[form](FACTS[language]))
    assert [(entry.text, entry.date, entry.is_message) for entry in found.entries] == [
        (fact, "2024-05-01", True) for fact in FACTS[language]
    ]


@given(LISTS)
def test_lines_of_any_script_are_found_once_and_as_plain_text(said: list[str]) -> None:
    wanted = {line_words_of(f"- {text}") for text in said}
    for form in ("a list", "JSON", "memories", "JSON lines"):
        found = read(LISTED[form](said))
        assert {line_words_of(entry.line) for entry in found.entries} == wanted, form
        assert all(is_plain(entry.line) for entry in found.entries)
        new = Changed("/topics/me.md", "", "".join(f"{entry.line}\n" for entry in found.entries))
        assert guard.invented([new], [("", text_of_entries(found.entries))]) == {}
    for form, made in MESSAGES.items():
        if form != "Gemini's page":
            assert {
                line_words_of(f"- {entry.text}") for entry in read(made(said)).entries
            } == wanted, form


@given(st.text(st.characters(), max_size=400))
def test_any_text_is_read_or_refused_in_one_line_and_what_is_read_can_be_kept(text: str) -> None:
    brought = read_or_refused(text)
    for entry in brought.entries:
        assert is_plain(f"- {entry.fact}"), entry
        assert not set("\x00\n\r\u2028") & set(entry.text + entry.title + entry.date)
        entry.text.encode()  # no half of a character
    assert brought.found == len(brought.entries) + sum(
        each["count"] for each in counted(brought.left_out).values()
    )


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["mapping", "chat_messages", "message", "author", "role", "content", "parts", "parent", "current_node",
                         "children", "text", "title", "header", "time", "create_time", "sender", "id"]) | st.text(max_size=5),
        inner, max_size=5,
    ),
    max_leaves=20,
)  # fmt: skip


@given(JSON_VALUES)
def test_json_of_any_shape_is_read_or_refused(value: Any) -> None:
    read_or_refused(json.dumps([value]))


@pytest.mark.parametrize(("text", "found"), [
    ("[2024-05-01] - moved to Berlin", "- moved to Berlin (2024-05-01)"),
    ("- [2024-05-01] - moved to Berlin", "- moved to Berlin (2024-05-01)"),
    ("1. [2024-05-01]. User moved to Berlin", "- User moved to Berlin (2024-05-01)"),
    ("2024-05-01: moved to Berlin", "- moved to Berlin (2024-05-01)"),
    ("[May 2024] - moved to Berlin", "- moved to Berlin (May 2024)"),
    ("[2024年5月1日] - 搬到柏林", "- 搬到柏林 (2024年5月1日)"),
    ("[unknown] - likes tea", "- likes tea"),
    ("- [x] pay the rent", "- pay the rent"),
    ("- **Name:** Ada", "- Name: Ada"),
    ("- writes 2**3 and Vec<T> in <b>Rust</b>", "- writes 2**3 and Vec< T> in Rust"),
    ("> likes tea", "- likes tea"),
    ('{"memory": "likes tea", "created_at": "2024-05-01T10:00:00Z"}', "- likes tea (2024-05-01)"),
    ('{"text": "likes tea", "timestamp": 1714557600}', "- likes tea (2024-05-01)"),
    ('{"text": "likes tea", "timestamp": 1e400}', "- likes tea"),
    ('{"name": "Ada"}', "- name: Ada"),
    ('{"age": 7, "likes_tea": true, "id": 5, "city": null}', "- age: 7\n- likes tea: yes"),
    ('[{"role": "user", "content": "I like tea"}, {"role": "assistant", "content": "x"}]', "user: I like tea"),
    ('{"n": ' + "9" * 5_000 + "}", "- n: " + "9" * 5_000),
    ("caf\u0065\u0301\u200b and\u00a0tea\u3000too \ud800", "- cafe\u0301 and tea too"),
    ("- Family:\n  - Anna, 7\n  - Ben\n- likes tea", "- Family: Anna, 7\n- Family: Ben\n- likes tea"),
    ("\ufeff- a\r\n- b\rc", "- a\n- b\n- c"),
])  # fmt: skip
def test_a_line_is_read_as_a_person_reads_it(text: str, found: str) -> None:
    assert lines(text) == found.split("\n")


def test_an_assistant_s_words_around_a_code_block_are_told_and_are_no_facts() -> None:
    facts = [f"[2024-05-{day:02}] - fact number {day}" for day in range(1, 16)]
    brought = read(
        "Sure! Here is what I know about you:\n\nMost of it.\n\n```\n"
        + "\n".join(facts)
        + "\n```\n\nLet me know!"
    )
    assert lines("\n".join(facts)) == [entry.line for entry in brought.entries]
    assert len(brought.entries) == brought.found == 15
    assert brought.framing == ["Most of it.", "Let me know!"]
    only_some = read("I like tea.\nI like leek.\n```\npytest -q\n```\n- likes code")
    assert texts(only_some) == ["I like tea.", "I like leek.", "pytest -q", "likes code"]


def test_headings_and_conversations_stand_above_their_lines() -> None:
    assert (
        text_of_entries(read("# Work\n- a b\n- c d\n**Home**\n- e f").entries)
        == "## Work\n- a b\n- c d\n\n## Home\n- e f"
    )
    assert (
        text_of_entries(read(chatgpt(["I like tea"])).entries)
        == "## A talk (2024-05-01)\nuser: I like tea"
    )


def test_the_branch_that_the_person_saw_last_is_read_and_a_circle_ends() -> None:
    talk = json.loads(chatgpt(["one two", "three four"]))[0]
    assert texts(read(json.dumps(talk))) == ["one two", "three four"]
    for unknown in ("gone", {"id": "root"}, ["root"]):
        talk["current_node"] = unknown
        assert texts(read(json.dumps(talk))) == ["edited away"]
    talk["mapping"]["root"]["parent"] = "gone"
    assert texts(read(json.dumps(talk))) == ["edited away"]
    for node in talk["mapping"].values():
        node["children"] = ["root"]
    del talk["current_node"]
    assert texts(read(json.dumps(talk))) == []


@pytest.mark.parametrize("odd", [None, 7, [], {}, ["text"], "image"])
def test_a_message_of_no_known_kind_is_left_out(odd: object) -> None:
    talk = json.loads(chatgpt(["one two", "three four"]))[0]
    talk["mapping"]["a0"]["message"]["content"]["content_type"] = odd
    assert texts(read(json.dumps(talk))) == ["three four"]


def test_instructions_in_chatgpt_s_settings_are_facts() -> None:
    talk = json.loads(chatgpt(["I like tea"]))[0]
    told = {
        "user_context_message_data": {
            "about_user_message": "Teaches maths\nHas two dogs",
            "about_model_message": "Be brief",
        }
    }
    talk["mapping"]["a0"]["message"] |= {
        "metadata": told,
        "content": {"content_type": "user_editable_context"},
    }
    assert lines(json.dumps([talk])) == ["- Teaches maths", "- Has two dogs", "- Be brief"]


def test_lines_that_are_left_out_are_counted_by_their_reason() -> None:
    brought = read(f"- likes tea\n- Likes  tea.\n- {'x' * (MAX_ENTRY_CHARS + 1)}\n- dill")
    assert texts(brought) == ["likes tea", "dill"]
    assert brought.found == 4
    assert counted(brought.left_out) == {
        "twice": {"count": 1, "lines": ["Likes tea."]}, "too_long": {"count": 1, "lines": ["x" * 120]},
    }  # fmt: skip
    many = read(json.dumps([f"fact {number}" for number in range(MAX_ENTRIES + 3)]))
    assert (len(many.entries), many.found, counted(many.left_out)["too_many"]["count"]) == (
        MAX_ENTRIES,
        MAX_ENTRIES + 3,
        3,
    )


def test_a_long_message_is_divided_between_its_lines_and_never_within_one() -> None:
    said = [f"line {number} " + "x" * 900 for number in range(20)]
    found = read(chatgpt(["\n".join(said)])).entries
    assert len(found) > 1
    assert " ".join(entry.text for entry in found) == " ".join(said)
    assert all(entry.text.startswith("line ") for entry in found)


@given(st.lists(st.integers(1, 60), max_size=40), st.integers(1, 200))
def test_parts_are_whole_entries_in_order_and_none_is_much_longer_than_it_may_be(
    sizes: list[int], most: int
) -> None:
    entries = [Entry("x" * size) for size in sizes]
    divided = parts(entries, most)
    assert [entry for part in divided for entry in part] == entries
    assert all(part and sum(len(entry.line) for entry in part[:-1]) <= most for part in divided)
    for part in divided:
        assert Part.loaded(Part("1", "2", part).dumped()).entries == part


@pytest.mark.parametrize(("text", "says"), [
    ("PK\x03\x04\x14\x00", "ZIP archive; unpack it"),
    ("[" * 100_000, "nested more than 40 levels"),
    ('{"a":' * 60 + "1" + "}" * 60, "nested more than 40 levels"),
    ('[{"memory": "likes te', "begins as JSON and is none: .*It may have been cut"),
    ('{"memory": "likes tea"}\n{"memory": "lik', "line 2"),
])  # fmt: skip
def test_an_unreadable_text_is_refused_in_one_line_that_says_what_to_bring(
    text: str, says: str
) -> None:
    with pytest.raises(UnreadableError, match=says) as refused:
        read(text)
    assert "\n" not in str(refused.value)


@pytest.mark.proof
@pytest.mark.parametrize(
    "piece",
    [
        "<",
        "<a ",
        "<!--",
        "<script>",
        "```\n",
        "**a ",
        "&",
        "- ",
        "[",
        "\u0301",
        "[a](",
        "`",
        "{",
        '"',
    ],
)
def test_reading_takes_time_in_proportion_to_the_length(piece: str) -> None:
    def seconds(count: int) -> float:
        begin = time.process_time()
        read_or_refused(piece * count)
        return time.process_time() - begin

    short, long = seconds(50_000), seconds(400_000)
    assert long < 30 * max(short, 0.1), "eight times as long a text"


@pytest.mark.parametrize(
    "form", ["# Tea\n- {}green\n{}- black\n", "{}Tea:\n{}* green\n* bl{}ack\n"]
)
def test_byte_order_marks_of_joined_files_are_nothing(form: str) -> None:
    marked = form.replace("{}", "\ufeff")
    assert read(marked) == read(form.replace("{}", ""))
