"""What a word is, in every script: for facts with all marks, for a search without accents."""

import pytest

from lasting_memory.words import pieces, search_terms, words

# ruff: noqa: RUF001  # letters of other scripts are meant


@pytest.mark.parametrize(("text", "found"), [
    ("- दिल्ली में बेटी", ["दिल्ली", "में", "बेटी"]),
    ("আমার মেয়ে", ["আমার", "মেয়ে"]),
    ("தமிழ் மொழி", ["தமிழ்", "மொழி"]),
    ("నాకు టీ", ["నాకు", "టీ"]),
    ("می\u200cخواهم", ["میخواهم"]),
    ("\ufeffhe\u00adllo wor\u200bld", ["hello", "world"]),
    ("Cafe\u0301 ﬁn Ｆｕｌｌ", ["café", "fin", "full"]),
    ("İstanbul ISPARTA ısparta", ["istanbul", "isparta", "isparta"]),
    ("п'ять п’ять пʼять", ["пять"] * 3),
    ("1️⃣ ❤️ ३ ٣", ["1", "3", "3"]),
    ("C++, C# and foo_bar", ["c++", "c#", "and", "foo", "bar"]),
])  # fmt: skip
def test_a_word_is_its_letters_with_their_marks(text: str, found: list[str]) -> None:
    assert words(text) == found


def terms(text: str) -> list[str]:
    return [term.text for term in search_terms(text)]


@pytest.mark.parametrize(("one", "other"), [
    ("Café", "cafe"),
    ("ŁÓDŹ", "lodz"),
    ("Đà Nẵng", "da nang"),
    ("Straße", "STRASSE"),
    ("Αθήνα", "ΑΘΗΝΑ"),
    ("за́мок ёлка", "замок елка"),
    ("İSTANBUL", "istanbul"),
    ("שָׁלוֹם", "שלום"),
    ("السَّلَامُ", "الســلام"),
    ("أحمد إبراهيم", "احمد ابراهيم"),
    ("١٢٣ ۱۲۳ १२३ ๑๒๓", "123 123 123 123"),
    ("ｶﾀｶﾅ", "カタカナ"),
    ("کتاب‌ها", "كتابها"),
    ("دارای", "داراي"),
])  # fmt: skip
def test_a_search_takes_these_for_the_same(one: str, other: str) -> None:
    assert terms(one) == terms(other)


@pytest.mark.parametrize(("one", "other"), [
    ("मीना", "मोना"),
    ("दूध", "दध"),
    ("কলা", "কালা"),
    ("மீனா", "மோனா"),
    ("йод", "иод"),
    ("їжа", "іжа"),
    ("C++", "C#"),
    ("C++", "C"),
    (".NET", "net"),
])  # fmt: skip
def test_a_search_tells_these_apart(one: str, other: str) -> None:
    assert terms(one) != terms(other)


def test_a_name_with_marks_is_a_word_and_a_full_stop_is_none() -> None:
    assert terms("I like C++, C# (F#), .NET and node.js.") == [
        "i", "like", "c++", "c#", "f#", "net", ".net", "and", "node", "js", "node.js",
    ]  # fmt: skip
    assert terms("J.K. at 9 p.m. on 3.11") == [
        "j",
        "k",
        "at",
        "9",
        "p",
        "m",
        "on",
        "3",
        "11",
        "3.11",
    ]
    assert terms("C++17 issue#5 a+b") == ["c++", "17", "issue", "5", "a", "b"]


def test_writing_without_spaces_is_pairs_and_a_mark_stays_with_its_letter() -> None:
    assert terms("喜欢茶") == ["喜欢", "欢茶", "喜", "欢", "茶"]
    assert terms("ปูม้า") == ["ปูม้", "ม้า", "ปู", "ม้"]
    assert pieces("女儿 Anna ปู") == ["女", "儿", "anna", "ปู"]
