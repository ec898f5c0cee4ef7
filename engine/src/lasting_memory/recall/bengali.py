"""A light stemmer of Bengali, for search: it takes the endings of nouns off, which follow one
another (dog, dog's, to the dog, the dogs).

No library here has one. Two words of one stem cost a wrong candidate at worst; a question that has
"dog's" where the talk has "dog" would find nothing.
"""

from lasting_memory.words import comparable

# The letters, by Unicode.
_FIRST = "\u0980"
_LAST = "\u09ff"
# Letters and signs that stay at least.
_LEAST = 3
_VOWEL_SIGNS = frozenset("\u09be\u09bf\u09c0\u09c1\u09c2\u09c3\u09c7\u09c8\u09cb\u09cc")


def _endings(text: str) -> tuple[str, ...]:
    """The endings that a text names, as they stand in words, the longest first."""
    endings = list[str]()
    for ending in text.split():
        endings.append(comparable(ending))
    endings.sort(key=len, reverse=True)
    return tuple(endings)


# For stress; of cases, where the last one follows a vowel only; and of number and definiteness.
_STRESS = _endings("ই ও")
_CASES = _endings("ের কে তে ে য়")
_GENITIVE = "র"
_NUMBERS = _endings("গুলো গুলি দের রা টা টি")


def is_bengali(word: str) -> bool:
    """Whether a word is written in Bengali letters."""
    first_letter = word[:1]
    return _FIRST <= first_letter <= _LAST


def stem(word: str) -> str:
    """The stem of a word. The word is in lower case and normal form (`words.comparable`)."""
    bare_word = _without_one(word, _STRESS)
    noun = _without_all_cases(bare_word)
    shorter = _without_one(noun, _NUMBERS)
    if shorter == noun:
        return noun
    return _without_all_cases(shorter)


def _without_all_cases(word: str) -> str:
    """A word without its endings of cases, however many it has. The r of a stem is taken off, too,
    as it looks like one.
    """
    shorter = _without_one(word, _CASES)
    if shorter == word and _has_genitive(word):
        shorter = word.removesuffix(_GENITIVE)
    if shorter == word:
        return word
    return _without_all_cases(shorter)


def _has_genitive(word: str) -> bool:
    """Whether a word ends with the genitive's r behind a vowel."""
    stem = word.removesuffix(_GENITIVE)
    if stem == word:
        return False
    if len(stem) < _LEAST:
        return False
    last_sign = stem[-1]
    return last_sign in _VOWEL_SIGNS


def _without_one(word: str, endings: tuple[str, ...]) -> str:
    """A word without the first of these endings that it has; the word itself if it has none, or if
    too little would be left.
    """
    for ending in endings:
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= _LEAST:
            return stem
    return word
