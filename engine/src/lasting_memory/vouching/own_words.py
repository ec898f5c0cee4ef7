"""What of a message its person wrote themselves: what is quoted, fenced, forwarded, pasted or very
long stands apart.
"""

# ruff: noqa: RUF001  # quotation marks of all languages are meant

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import regex

from lasting_memory.words import length_of, pieces

# A paragraph of a message that is longer was pasted; so was what follows the first paragraph of a
# message that is longer as a whole. In characters of an alphabet.
LONG_PARAGRAPH = 600
LONG_MESSAGE = 1_500
# A quotation of more words is somebody else's; a name or a term in quotation marks is not.
_QUOTED_WORDS = 2
# Of a message with more characters only the beginning of its first line may be the person's.
_MOST_CHARS = 20_000
_HEAD_CHARS = 500
_FENCE = regex.compile(
    r"^[ \t]*(`{3,}|~{3,}).*?(?:^[ \t]*\1[ \t]*$|\Z)", regex.DOTALL | regex.MULTILINE
)
_CODE = regex.compile(r"`[^`\n]{3,2000}`")
_ELEMENT = regex.compile(r"<([\p{L}_][\w.:-]{0,40})\b[^<>]{0,400}>.*?(?:</\1\s*>|\Z)", regex.DOTALL)
_INSTRUCTION_MARKS = regex.compile(
    r"\[/?(?:INST|SYSTEM|SYS|USER|ASSISTANT)\]|<\|[^|>]{1,40}\|>|<<SYS>>", regex.IGNORECASE
)
# An opening and a closing mark.
_PAIRS = ('""', "“”", "„“", "„”", "«»", "»«", "‹›", "‘’", "‚‘", "「」", "『』", "《》", "”“", "””")
_QUOTATIONS = [
    regex.compile(
        rf"{regex.escape(opening)}([^{regex.escape(opening + closing)}]{{2,4000}}){regex.escape(closing)}"
    )
    for opening, closing in map(tuple, _PAIRS)
]
_SINGLE = regex.compile(
    r"(?<![\p{L}\p{N}])'(?=\S)([^'\n]{2,2000}(?:'(?=\p{L})[^'\n]{1,2000})*)(?<=\S)'(?!\p{L})"
)
# A message of somebody else's, from this line on.
_FORWARDED = regex.compile(
    r"^[ \t>]*(?:"
    r"-{2,}\s*\p{L}[\p{L} ]{4,60}-{2,}"  # --- Original message ---
    r"|(?:begin forwarded message|forwarded message|weitergeleitete nachricht|message transféré|"
    r"mensaje reenviado)\b.*"
    r"|(?:on|am|le|el|il|op|den|em)\s.{4,120}(?:wrote|schrieb|a écrit|escribió|ha scritto|schreef|"
    r"skrev|escreveu).{0,60}:"
    r"|(?:from|von|de|da|van|från|fra|от|від|差出人|发件人|寄件者|보낸 사람|kimden|od|من)\s?[:：]\s*\S.*"
    r"|(?:subject|betreff|objet|asunto|oggetto|assunto|onderwerp|ämne|emne|тема|件名|主题|主旨|제목|konu|"
    r"temat)\s?[:：].*"
    r")[ \t]*$",
    regex.IGNORECASE | regex.MULTILINE,
)
# Words by which a person hands over a text: what stands behind the colon is that text.
_HANDS_OVER = regex.compile(
    r"\b(?:summari[sz]|translat|proofread|paraphras|rewrit|rephras|repl(?:y|ies)|draft|review|"
    r"analy[sz]|check|explain|"
    r"e-?mails?|mails?|letter|article|web\s?page|website|page|document|transcript|ticket|review|"
    r"newsletter|post|thread|"
    r"comment|excerpt|paragraph|passage|text|received|got this|says|said|wrote|writes|read(?:s|ing)?|"
    r"found|pasted?|below|following (?:text|mail|message)|"
    r"zusammenfass|fass|fasse|übersetz|korrigier|umformulier|beantwort|brief|artikel|seite|webseite|"
    r"dokument|schreiben|"
    r"nachricht|schrieb|schreibt|steht|sagt|gelesen|gefunden|folgende[rn]? text|"
    r"résum|tradui|corrig|lettre|courriel|texte|page|écrit|reçu|dit|"
    r"resum|traduc|traduz|correo|carta|texto|página|escrib|escreve|dice|recib|"
    r"riassum|tradu|lettera|testo|pagina|scritto|dice|"
    r"vat|samenvat|vertaal|tekst|pagina|sammanfatta|översätt|oversæt|"
    r"переведи|перескажи|резюм|письмо|статья|текст|пишет|написал|сказал|перекла|лист|"
    r"özetle|çevir|metin|mektup|streść|przetłumacz|tekst)"
    r"|翻译|翻譯|总结|總結|邮件|郵件|文章|网页|網頁|写道|说|翻訳|要約|メール|記事|번역|요약|메일|글|แปล|สรุป|ترجم|لخص|رسالة|ترجمه|תרגם|"
    r"סכם|अनुवाद|सारांश",
    regex.IGNORECASE,
)
# The same where no colon stands: the text is on the next line.
_HANDS_OVER_THIS = regex.compile(
    r"\b(?:summari[sz]e|translate|proofread|paraphrase|rewrite|rephrase|shorten|fix|correct|reply to|"
    r"answer|analy[sz]e|check|"
    r"explain|review|look at|read|see|fyi|got|received|what (?:do|does|is|about)|is|übersetze?|"
    r"fasse?|korrigiere?|lies|"
    r"antworte|prüfe?|schau|was|résume|traduis|traduisez|corrige|réponds|lis|que|resume|traduce|"
    r"corrige|responde|lee|"
    r"riassumi|traduci|correggi|leggi|traduza|resuma|vertaal|vat|översätt|переведи|перескажи|исправь|"
    r"прочитай|özetle|çevir)\b"
    r".{0,60}\b(?:this|that|it|these|below|following|das|dies|diese[snmr]?|folgende[snmr]?|hier|"
    r"zusammen|ceci|cela|ça|esto|"
    r"este|esta|questo|questa|isto|dit|deze|detta|det här|это|этот|эту|bunu|mail|e-?mail|message|text|page)\b"
    r"|翻译|翻譯|总结|總結|翻訳|要約|번역|요약|แปล|สรุป|ترجم|لخص|ترجمه|תרגם|סכם",
    regex.IGNORECASE,
)
_REMEMBER = regex.compile(
    r"\b(?:remember|memori[sz]e|keep in mind|note (?:that|down)|make a note|don'?t forget|save|store|"
    r"merk|behalt|behalte|notier|speicher|vergiss nicht|denk (?:bitte )?dran|"
    r"souvien|rappel|retiens|retenez|note[zr]? que|mémoris|n'oublie|recuerda|recuérd|anota|apunta|"
    r"memoriza|no olvides|"
    r"ricorda|ricordati|annota|memorizza|lembr|anote|guarde|não esqueça|onthoud|noteer|vergeet niet|"
    r"kom ihåg|husk|запомни|запиши|помни|не забудь|запам|unutma|hatırla|kaydet|zapamiętaj|pamiętaj|"
    r"zapisz|zapamatuj|"
    r"muista|jegyezd|reține|θυμήσου|ingat|nhớ)"
    r"|记住|記住|记下|記下|覚えて|覚えと|記憶|기억|จำไว้|จำว่า|تذكر|احفظ|یادت|به یاد|זכור|תזכור|याद र|মনে রাখ|நினைவில்|గుర్తు",
    regex.IGNORECASE,
)
_OPENS_A_LETTER = regex.compile(
    r"^\s*(?:dear|to whom|sehr geehrte|liebe[rs]? (?:frau|herr|kund|kolleg|team)|cher|chère|madame|"
    r"monsieur|estimad|querid|"
    r"gentile|egregi|spett|prezad|caro|cara|geachte|beste|bästa|kære|kjære|уважаем|шановн|sayın|"
    r"szanown|vážen|αγαπητ|"
    r"尊敬的|亲爱的|拝啓|各位|안녕하세요|عزيزي|السيد|שלום רב)",
    regex.IGNORECASE,
)
# How a text speaks of the person to whom an assistant listens: nobody calls themselves so.
_OF_THE_USER = regex.compile(
    r"\b(?:the|this|your) (?:user|reader|recipient|account holder)s?\b|\bthis (?:customer|client|person)\b|"
    r"\buser(?:'s)? (?:prefer|want|like|is|has|name)|"
    r"\b(?:note|message|instruction|attention|reminder|memo)s? (?:to|for) (?:the |any |all )?(?:ai|"
    r"a\.i\.|llm|assistants?|agents?|chat ?bots?|models?)\b|"
    r"\b(?:ai|llm|virtual|digital) (?:assistant|agent|model)s?\b|\bassistants? (?:reading|must|"
    r"should|shall|please)\b|"
    r"\b(?:der|dem|den|dieser|diesen|des) (?:be)?nutzers?\b|\b(?:ki|ai)-(?:assistent|agent)|"
    r"\bl['’]utilisateur|\bcet utilisateur|"
    r"\b(?:el|al|del|este) usuario\b|\b(?:o|ao|do|este) usuário\b|\bl['’]utente\b|\bde gebruiker\b|"
    r"\banvändaren\b|\bbrugeren\b|"
    r"\bпользовател|\bкористувач|\bkullanıcı|\bużytkownik|\buživatel|\bignore (?:all |"
    r"any )?(?:previous|prior|earlier) instructions"
    r"|用户|使用者|ユーザー|利用者|사용자|ผู้ใช้|المستخدم|کاربر|המשתמש|उपयोगकर्ता|người dùng|pengguna",
    regex.IGNORECASE,
)
_SENTENCE = regex.compile(r".+?(?:[.!?…？！。｡।॥۔։؟](?=\s|$)|[。！？｡]|\n|$)\s*", regex.DOTALL)
_QUESTION = regex.compile(r"[?？؟;]\s*$")
_LOG_LINE = regex.compile(
    r"^\s*(?:\[?\d{1,2}[:.]\d\d[^\]\n]{0,20}\]?\s*)?(\p{Lu}[\p{L}. '-]{0,30}?)\s?[:：]\s+\S"
)
# One behind which a text may stand: in no time of day, and in no address.
_COLON = regex.compile(r"[:：](?=\s|$|[^\d\s/])")
_BLANK = regex.compile(r"\n[ \t]*\n")


class Parts(NamedTuple):
    """A message: what its person wrote, sentence by sentence, and the texts that they only brought."""

    own: list[str]
    foreign: list[str]


def parts_of(message: str) -> Parts:
    """What of a message's text its person wrote themselves. In linear time."""
    foreign = list[str]()
    text = message
    if len(message) > _MOST_CHARS:
        foreign.append(message[_HEAD_CHARS:])
        head = message[:_HEAD_CHARS]
        text, _, _ = head.partition("\n")
    text = _cut(text, [_FENCE, _ELEMENT, _CODE], foreign)
    if _INSTRUCTION_MARKS.search(text):
        foreign.append(text)
        return Parts([], foreign)
    text = _before(text, _FORWARDED, foreign)
    text = _without_quoted_lines(text, foreign)
    text = _without_quotations(text, foreign)
    # All at once: they add to what is foreign, too.
    paragraphs = list(_own_paragraphs(text, foreign))
    own = list[str]()
    for paragraph in paragraphs:
        own += _own_sentences(paragraph, foreign)
    return Parts(own, foreign)


def _own_sentences(paragraph: str, foreign: list[str]) -> list[str]:
    """The sentences of a paragraph in which its person states something."""
    own = list[str]()
    for sentence in _SENTENCE.findall(paragraph):
        said = sentence.strip()
        if _OF_THE_USER.search(sentence):
            foreign.append(sentence)
        elif said and _states(said):
            own.append(said)
    return own


def _states(sentence: str) -> bool:
    """Whether a sentence says something: a question does not, unless it asks to remember."""
    if not _QUESTION.search(sentence):
        return True
    return _asks_to_remember(sentence)


def _asks_to_remember(text: str) -> bool:
    match = _REMEMBER.search(text)
    return match is not None


def _cut(text: str, patterns: Iterable[regex.Pattern[str]], foreign: list[str]) -> str:
    for pattern in patterns:
        foreign += [match[0] for match in pattern.finditer(text)]
        text = pattern.sub("\n", text)
    return text


def _before(text: str, pattern: regex.Pattern[str], foreign: list[str]) -> str:
    """The text before a match; what follows is foreign."""
    match = pattern.search(text)
    if match is None:
        return text
    start = match.start()
    foreign.append(text[start:])
    return text[:start]


def _without_quoted_lines(text: str, foreign: list[str]) -> str:
    kept = list[str]()
    for line in text.split("\n"):
        if line.lstrip().startswith((">", "|", "＞")):
            foreign.append(line)
        else:
            kept.append(line)
    return "\n".join(kept)


def _without_quotations(text: str, foreign: list[str]) -> str:
    def replaced(match: regex.Match[str]) -> str:
        if len(pieces(match[1])) <= _QUOTED_WORDS:
            return str(match[0])
        foreign.append(match[1])
        return " … "

    for pattern in (*_QUOTATIONS, _SINGLE):
        text = pattern.sub(replaced, text)
    return text


def _own_paragraphs(text: str, foreign: list[str]) -> Iterator[str]:
    """The paragraphs that a person wrote, until a text begins that they brought."""
    is_long = length_of(text) > LONG_MESSAGE
    paragraphs = _BLANK.split(text)
    for number, paragraph in enumerate(paragraphs):
        if _OPENS_A_LETTER.match(paragraph) or (is_long and number):
            foreign.append(_as_text(paragraphs[number:]))
            return
        if length_of(paragraph) > LONG_PARAGRAPH or _is_log(paragraph):
            foreign.append(paragraph)
            continue
        own, brought = _until_handed_over(paragraph)
        if own.strip():
            yield own
        following = paragraphs[number + 1 :]
        if brought is not None:
            foreign.append(_as_text([brought, *following]))
            return
        is_one_line = "\n" not in paragraph.strip()
        if is_one_line and _hands_over_next_line(paragraph):
            foreign.append(_as_text(following))
            return


def _as_text(paragraphs: Iterable[str]) -> str:
    return "\n\n".join(paragraphs)


def _is_log(paragraph: str) -> bool:
    """Whether a paragraph is a conversation of others: a speaker in it speaks twice."""
    speakers = set[str]()
    for line in paragraph.split("\n"):
        match = _LOG_LINE.match(line)
        if match is None:
            continue
        speaker = match[1]
        if speaker in speakers:
            return True
        speakers.add(speaker)
    return False


def _until_handed_over(paragraph: str) -> tuple[str, str | None]:
    """What a person says of a text that they bring behind a colon, and that text; None if they bring
    none.
    """
    for colon in _COLON.finditer(paragraph):
        before = paragraph[: colon.start()]
        if _hands_over(before):
            return before, paragraph[colon.end() :]
    first, line_break, rest = paragraph.partition("\n")
    if line_break and _hands_over_next_line(first):
        return first, rest
    return paragraph, None


def _hands_over(text: str) -> bool:
    """Whether the last sentence of a text, before a colon, hands over what stands behind it."""
    sentences = _SENTENCE.findall(text)
    if not sentences:
        return False
    last = sentences[-1]
    if not _HANDS_OVER.search(last):
        return False
    return not _asks_to_remember(last)


def _hands_over_next_line(line: str) -> bool:
    if not _HANDS_OVER_THIS.search(line):
        return False
    return not _asks_to_remember(line)
