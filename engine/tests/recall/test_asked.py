"""What a question asks for decides what counts: the newest, or what an assistant said."""

# ruff: noqa: RUF001  # letters of other scripts are meant
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from langgraph.store.base import BaseStore

from lasting_memory.recall.corpus import EXPLAINED_LENGTH
from lasting_memory.testing.platform import Platform
from lasting_memory.words import length_of
from tests.recall.languages import SETS
from tests.recall.talks import ALICE, NOW, hits, human, say

# What was so first, what is so now, a question, and the same question about what is so now.
REPLACED = {
    "en": (
        "Our office is in Bremen.",
        "Our office is in Hamburg, in Altona.",
        "Where is our office?",
        "Where is our office now?",
    ),
    "de": (
        "Unser Büro ist in Bremen.",
        "Unser Büro ist in Hamburg, in Altona.",
        "Wo ist unser Büro?",
        "Wo ist unser Büro jetzt?",
    ),
    "es": (
        "Nuestra oficina está en Sevilla.",
        "Nuestra oficina está en Madrid, en Atocha.",
        "¿Dónde está nuestra oficina?",
        "¿Dónde está ahora nuestra oficina?",
    ),
    "fr": (
        "Notre bureau est à Lyon.",
        "Notre bureau est à Paris, à Montmartre.",
        "Où est notre bureau ?",
        "Où est notre bureau aujourd'hui ?",
    ),
    "ru": (
        "Наш офис в Казани.",
        "Наш офис в Москве, на Арбате.",
        "Где наш офис?",
        "Где сейчас наш офис?",
    ),
    "uk": (
        "Наш офіс у Львові.",
        "Наш офіс у Києві, на Подолі.",
        "Де наш офіс?",
        "Де зараз наш офіс?",
    ),
    "tr": (
        "Ofisimiz Bursa'da.",
        "Ofisimiz Ankara'da, Çankaya'da.",
        "Ofisimiz nerede?",
        "Ofisimiz şimdi nerede?",
    ),
    "vi": (
        "Văn phòng của chúng tôi ở Huế.",
        "Văn phòng của chúng tôi ở Đà Nẵng.",
        "Văn phòng của chúng tôi ở đâu?",
        "Văn phòng của chúng tôi hiện nay ở đâu?",
    ),
    "ar": (
        "مكتبنا في حلب.",
        "مكتبنا في دمشق، في المزة.",
        "أين مكتبنا؟",
        "أين مكتبنا الآن؟",
    ),
    "fa": (
        "دفتر ما در شیراز است.",
        "دفتر ما در تهران است، در ونک.",
        "دفتر ما کجاست؟",
        "دفتر ما الان کجاست؟",
    ),
    "hi": (
        "हमारा दफ़्तर जयपुर में है।",
        "हमारा दफ़्तर दिल्ली में है, करोलबाग़ में।",
        "हमारा दफ़्तर कहाँ है?",
        "हमारा दफ़्तर अब कहाँ है?",
    ),
    "bn": (
        "আমাদের অফিস খুলনায়।",
        "আমাদের অফিস ঢাকায়, মতিঝিলে।",
        "আমাদের অফিস কোথায়?",
        "আমাদের অফিস এখন কোথায়?",
    ),
    "ta": (
        "எங்கள் அலுவலகம் மதுரையில் உள்ளது.",
        "எங்கள் அலுவலகம் சென்னையில், அடையாறில் உள்ளது.",
        "எங்கள் அலுவலகம் எங்கே உள்ளது?",
        "எங்கள் அலுவலகம் இப்போது எங்கே உள்ளது?",
    ),
    "te": (
        "మా ఆఫీసు విజయవాడలో ఉంది.",
        "మా ఆఫీసు హైదరాబాదులో, అమీర్‌పేటలో ఉంది.",
        "మా ఆఫీసు ఎక్కడ ఉంది?",
        "మా ఆఫీసు ఇప్పుడు ఎక్కడ ఉంది?",
    ),
    "th": (
        "สำนักงานของเราอยู่ที่ภูเก็ต",
        "สำนักงานของเราอยู่ที่กรุงเทพ สีลม",
        "สำนักงานของเราอยู่ที่ไหน",
        "ตอนนี้สำนักงานของเราอยู่ที่ไหน",
    ),
    "ja": (
        "オフィスは大阪です。",
        "オフィスは東京、渋谷です。",
        "オフィスはどこですか？",
        "今、オフィスはどこですか？",
    ),
    "zh": (
        "我们的办公室在北京。",
        "我们的办公室在上海，浦东。",
        "我们的办公室在哪里？",
        "我们的办公室现在在哪里？",
    ),
    "ko": (
        "우리 사무실은 부산에 있어요.",
        "우리 사무실은 서울 강남에 있어요.",
        "우리 사무실은 어디에 있어요?",
        "우리 사무실은 지금 어디에 있어요?",
    ),
}


@pytest.mark.parametrize("language", REPLACED)
async def test_a_statement_that_holds_now_comes_before_the_one_it_replaced(
    store: BaseStore, language: str
) -> None:
    before, after, question, question_now = REPLACED[language]
    threads = Platform()
    say(threads, "before", before, days=40)
    say(threads, "after", after, days=10)
    assert await hits(store, threads, question) == ["before", "after"]
    assert await hits(store, threads, question_now) == ["after", "before"]


@pytest.mark.parametrize("question", [
    "Where is our office now?",
    "Is our office still in Bremen or Hamburg?",
    "Which was our last office?",
    "Our current office?",
])  # fmt: skip
async def test_the_newest_comes_first_only_where_it_answers_as_well(
    store: BaseStore, question: str
) -> None:
    threads = Platform()
    say(threads, "old", "Our office is in Bremen, and the Bremen office is small.", days=40)
    say(threads, "new", "Our office is in Hamburg, and the Hamburg office is big.", days=10)
    say(threads, "other", "I read about an office of a stranger, and much more of that.", days=1)
    say(threads, "else", "The weather is fine, and we had soup.", days=0)
    assert (await hits(store, threads, question))[:2] == ["new", "old"]


async def test_the_newer_of_two_equal_matches_comes_first(store: BaseStore) -> None:
    threads = Platform()
    everyday = " ".join(f"w{number}" for number in range(10, 90))
    say(threads, "old", f"The office {everyday} blue", days=40)
    say(threads, "new", f"The office {everyday} green grass", days=10)
    say(threads, "else", f"The kitchen {everyday}", days=1)
    assert await hits(store, threads, "office") == ["new", "old"]


# A cue, and words that an assistant explained and the person mentioned.
ANSWERS = {
    "en": ("What did you recommend", "tomatoes fertilizer"),
    "de": ("Was hast du empfohlen", "Tomaten Dünger"),
    "es": ("¿Qué me recomendaste", "tomates fertilizante"),
    "uk": ("Що ти порадив", "помідори добриво"),
    "vi": ("Lời khuyên của bạn là gì", "cà chua phân bón"),
    "fa": ("چه پیشنهادی دادی", "گوجه کود"),
    "hi": ("तुमने क्या सलाह दी थी", "टमाटर खाद"),
    "bn": ("তুমি কী পরামর্শ দিয়েছিলে", "টমেটো সার"),
    "ta": ("நீங்கள் என்ன பரிந்துரைத்தீர்கள்", "தக்காளி உரம்"),
    "te": ("మీరు ఏమి సలహా ఇచ్చారు", "టమాటా ఎరువు"),
    "th": ("คุณแนะนำอะไร", "มะเขือเทศ ปุ๋ย"),
    "ja": ("何を勧めてくれましたか", "トマト 肥料"),
    "zh": ("你推荐了什么", "番茄 肥料"),
}
_EVERYDAY = [
    "The market was crowded this morning.",
    "In the evening we had tea and looked at old photos.",
    "There were three meetings at the office.",
    "The lights went out, so supper was late.",
]


def answered(threads: Platform, name: str, *texts: str, days: float = 1) -> None:
    """A conversation in which the person and the assistant speak by turns."""
    messages = list[dict[str, str]]()
    for number, text in enumerate(texts):
        role = "ai" if number % 2 else "human"
        messages.append({"type": role, "id": f"{name}-{number}", "content": text})
    threads.put(ALICE, name, (NOW - timedelta(days)).isoformat(), messages)


def said_and_explained(words: str, everyday: Sequence[str] = _EVERYDAY) -> Platform:
    """These words, said once by the person, and several times by an assistant at length."""
    filler = " ".join(everyday)
    while length_of(filler) < EXPLAINED_LENGTH // 2:
        filler = f"{filler} {filler}"
    threads = Platform()
    answered(threads, "said", f"{filler} {words}.", "ok", days=2)
    explanation = f"{filler} {words}. {words}. {filler} {words}."
    answered(threads, "explained", everyday[0], explanation, days=3)
    return threads


def test_questions_are_there_in_every_language() -> None:
    assert ANSWERS.keys() == SETS.keys() | {"en"}
    assert REPLACED.keys() >= ANSWERS.keys()


@pytest.mark.parametrize("language", ANSWERS)
async def test_an_assistant_s_explanation_counts_where_it_is_asked_for(
    store: BaseStore, language: str
) -> None:
    cue, words = ANSWERS[language]
    everyday = SETS[language]["more"] if language in SETS else _EVERYDAY
    threads = said_and_explained(words, everyday)
    assert await hits(store, threads, words) == ["said", "explained"]
    assert await hits(store, threads, f"{cue}: {words}?") == ["explained", "said"]


@pytest.mark.parametrize("message", [
    "The plan is fine. I watered the tomatoes. Which fertilizer comes next?",
    "Der Garten ist fertig.\nIch habe die tomatoes gegossen.\nfertilizer?",
    "花园好了。我浇了 tomatoes。fertilizer 呢？",
    "बगीचा तैयार है। मैंने tomatoes को पानी दिया। fertilizer?",
])  # fmt: skip
async def test_a_message_that_goes_on_finds_what_was_explained(
    store: BaseStore, message: str
) -> None:
    words = "tomatoes fertilizer"
    threads = said_and_explained(words)
    assert await hits(store, threads, words) == ["said", "explained"]
    assert (await hits(store, threads, message))[0] == "explained"


@pytest.mark.parametrize("question", [
    "Which tomatoes and fertilizer does Dr. J. R. Smith have?",
    "I have tomatoes. Which fertilizer?",
    "tomatoes, fertilizer",
    "番茄 tomatoes fertilizer 在哪里？",
])  # fmt: skip
async def test_a_question_is_no_message(store: BaseStore, question: str) -> None:
    threads = said_and_explained("tomatoes fertilizer")
    assert (await hits(store, threads, question))[0] == "said"


async def test_an_assistant_s_long_repetition_comes_after_its_first_answer(
    store: BaseStore,
) -> None:
    """It looked it up; the answer that it gave first comes first."""
    words = "tomatoes fertilizer"
    threads = said_and_explained(words)
    explanation = threads.kept["explained"]["values"]["messages"][1]["content"]
    looked_up = {"name": "search_past_conversations", "args": {"query": words}, "id": "1"}
    messages: list[dict[str, Any]] = [
        human("What did you recommend for the garden?"),
        {"type": "ai", "id": "a", "content": "", "tool_calls": [looked_up]},
        {"type": "tool", "id": "b", "tool_call_id": "1", "content": words},
        {"type": "ai", "id": "c", "content": explanation},
    ]
    threads.put(ALICE, "repeated", NOW.isoformat(), messages)
    found = await hits(store, threads, f"What did you recommend: {words}?")
    assert found == ["explained", "said", "repeated"]
