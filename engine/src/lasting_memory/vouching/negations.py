"""Words that turn a sentence into its opposite, in the languages that people are likely to write.

Words of all languages are one list: a word that negates in one of them and not in another (such as
`nu`) costs a line its confirmation at worst. A prefix counts for the words that begin with it.
"""

# ruff: noqa: RUF001  # letters of other scripts are meant

import regex

from lasting_memory.words import comparable

_WORDS = """
no not never none nobody nothing neither nor nowhere without cannot dont doesnt didnt isnt arent wasnt werent wont
wouldnt shouldnt couldnt cant hasnt havent hadnt mustnt neednt aint nope hardly barely rarely seldom except unless
instead rather wrong false untrue incorrect anymore
nicht nie niemals nichts niemand niemanden niemandem nirgends nirgendwo weder ohne statt anstatt außer ausser kaum
selten falsch ungern nimmer nein ned nö
ne pas jamais rien aucun aucune sans ni non sauf faux guère nul nulle
nunca jamás jamas nada nadie ningún ningun ninguno ninguna sin tampoco salvo excepto falso
mai niente nulla nessuno nessuna nessun senza né neanche nemmeno neppure tranne
não nao ninguém ninguem nenhum nenhuma sem nem tampouco exceto
niet geen nooit niets niemand zonder nergens behalve
inte icke aldrig ingen inget inga ingenting utan varken ej ikke ikkje aldri intet ingenting uden uten hverken
не нет никогда никто ничего нигде ни без нельзя кроме никак никакой никакая никакие никого неверно
ні немає ніколи ніхто нічого крім жоден жодна жодного жодної неправда
nie nigdy nikt nic żaden żadna żadne żadnego żadnej bez ani oprócz nikdy nikdo žádný žádná žádné není nejsem nemám
nu niciodată niciodata nimic nimeni fără fara nici няма никога нищо никой nije nisam nikad ništa nitko
δεν δε μη μην όχι οχι ποτέ ποτε κανένας κανένα καμία καμιά χωρίς τίποτα ούτε
değil degil yok asla hayır hayir hiç hic olmaz
ei älä emme ette eivät ilman koskaan nem soha sincs nincs nélkül senki semmi sosem
لا لم لن ليس ليست لست بدون غير أبدا ابدا مش مو ليسوا
نه نیست بدون هرگز هیچ نیستم نباید
לא אין אל בלי מעולם אף איני אינו אינה
नहीं नही न मत बिना कभी नहीं
না নেই নয় নাই বিনা
இல்லை வேண்டாம் இல்லாமல்
కాదు లేదు వద్దు లేకుండా
không chưa chẳng đừng chớ
tidak tak bukan jangan belum tanpa hapana
նչ ոչ չէ
"""
_PREFIXES = """
avoid refus dislik stopp refrain forbid prohibit kein vermeid unterlass évit evit interdi arrêt vermijd undvik
избега ненави уника
"""
# Of scripts whose words hang together, and verbs that are negated by an ending.
_PARTS = """
不 没 沒 别 別 无 無 非 未 勿 莫 否 甭 ない なく なかっ なかれ ません ぬ ずに ず、 嫌い
않 없 아니 못 말고 지마 ไม่ อย่า ห้าม ไร้ บໍ່ မလို មិន អត់ កុំ نمی
"""
_STANDING_ALONE = frozenset(map(comparable, _WORDS.split()))
_BEGINNINGS = tuple(map(comparable, _PREFIXES.split()))
_INSIDE = regex.compile("|".join(map(comparable, _PARTS.split())))
# Before a verb it negates: stop sending. After it, it says where: a bus stop. Korean's 안.
_BEFORE_A_VERB = regex.compile(
    r"\b(?:stop|quit|cease)(?=\s+\p{L}+ing\b)|(?<!\p{L})안(?=\s)|지\s+마"
)
_APOSTROPHE = regex.compile(r"(?<=\p{L})['’ʼ](?=\p{L})")
_NOT = regex.compile(r"(?<=n)['’ʼ]t\b")
# What is no negation in a language, though it is in another: Portuguese `no` is "in the".
_NOT_IN = {
    "portuguese": frozenset({"no"}),
    "dutch": frozenset({"nu"}),
    "swedish": frozenset({"nu"}),
}
# A French or Italian word before an apostrophe: n'aime.
_ELIDED = regex.compile(r"\b(?:n|d|l|j|qu|m|t|s|c)['’ʼ](?=\p{L})")


def without_apostrophes(text: str) -> str:
    """A text in which `don't` is one word, and `n'aime` two. In lower case and normal form."""
    lowercase_text = comparable(text)
    lowercase_text = _ELIDED.sub(_whole_word, lowercase_text)
    lowercase_text = _NOT.sub("t", lowercase_text)
    return str(_APOSTROPHE.sub(" ", lowercase_text))


def _whole_word(elided_word: regex.Match[str]) -> str:
    """What an elided word says, in a word of its own: whether it negates."""
    is_negation = elided_word[0].startswith("n")
    return "ne " if is_negation else " "


def negates(word: str, language: str) -> bool:
    """Whether a word negates. It is given as `comparable` spells it, without an apostrophe."""
    exceptions = _NOT_IN.get(language, frozenset())
    if word in exceptions:
        return False
    if word in _STANDING_ALONE:
        return True
    return word.startswith(_BEGINNINGS)


def has_negation(text: str) -> bool:
    """Whether a negation stands in a text of a script without spaces, or an ending negates. The
    text is as `without_apostrophes` gives it.
    """
    if _INSIDE.search(text):
        return True
    return _BEFORE_A_VERB.search(text) is not None
