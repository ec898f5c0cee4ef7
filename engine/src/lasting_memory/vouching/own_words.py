"""What of a message its person wrote themselves: what is quoted, fenced, forwarded, pasted or very
long stands apart.

The person's own sentences are what is left once all such texts are taken out. A text that is taken out
is a foreign text: it is somebody else's, and vouches for nothing. A person hands over a text with words
like "translate this:". A line announces a text if it ends so that a text must follow, in whichever
words. Of what follows such a line nobody knows whose it is: it is neither own nor foreign.

Functions here take a text and the list `foreign_texts`. They return the text without what is foreign,
and add that to the list. In place of quoted lines the text has the sign `_QUOTED`.
"""

# ruff: noqa: RUF001  # quotation marks of all languages are meant

from collections.abc import Iterable
from typing import NamedTuple

import regex

from lasting_memory.words import length_of, pieces, visible

# A paragraph of a message that is longer was pasted; so was what follows the first paragraph of a
# message that is longer as a whole. In characters of an alphabet.
LONG_PARAGRAPH = 600
LONG_MESSAGE = 1_500
# A quotation of more words is somebody else's; a name or a term in quotation marks is not.
_QUOTED_WORDS = 2
# Of a message with more characters only the beginning of its first line may be the person's.
_MOST_CHARS = 20_000
_HEAD_CHARS = 500
# What stands before a fence or a quoted line within a list.
_MARKERS = r"[ \t]*(?:(?:[-*+>]|\d{1,9}[.)])[ \t]+)*"
_FENCE = regex.compile(rf"^{_MARKERS}(?:`{{3,}}|~{{3,}}).*$", regex.MULTILINE)
_QUOTED_LINE = regex.compile(rf"{_MARKERS}[>|]")
_CODE = regex.compile(r"`[^`\n]{3,2000}`")
# A text that was struck out, and a comment that Markdown does not show.
_STRUCK = regex.compile(r"~~[^~]{2,4000}~~")
_HIDDEN_LINE = regex.compile(r"^[ \t]*\[[^\]\n]{1,80}\]:.*$", regex.MULTILINE)
# The line under the head of a table.
_TABLE = regex.compile(r"^(?=[^\n]*--)(?=[^\n]*\|)[ \t|:-]++$", regex.MULTILINE)
# An address in angle brackets is no element.
_TAG = regex.compile(r"<(?![^<>\s@]{1,200}@[^<>\s@]{1,200}>|https?://[^<>\s]{1,2000}>)[\p{L}_!/?]")
_LAST_TAG = regex.compile(r"</[\w.:-]{1,60}\s*>|<!--.*?-->", regex.DOTALL)
_INSTRUCTION_MARKS = regex.compile(
    r"\[/?(?:INST|SYSTEM|SYS|USER|ASSISTANT)\]|<\|[^|>]{1,40}\|>|<<SYS>>", regex.IGNORECASE
)
# An opening and a closing mark.
_PAIRS = ('""', "“”", "„“", "„”", "«»", "»«", "‹›", "「」", "『』", "《》", "”“", "””")
_QUOTATIONS = [
    regex.compile(
        rf"{regex.escape(opening)}([^{regex.escape(opening + closing)}]{{0,4000}}){regex.escape(closing)}"
    )
    for opening, closing in map(tuple, _PAIRS)
]
# A title that leads somewhere: its words are those of whoever wrote what is there.
_LINK = regex.compile(r"\[([^\[\]]{2,4000})\]\([^()\s]{1,2000}\)")
# Between single marks apostrophes stand, which a letter follows. What such a mark opens ends with
# the next one that no letter follows: so a search that begins before the last of these succeeds.
_SINGLE = regex.compile(
    r"(?<![\p{L}\p{N}])['‘‚](?=\S)([^'‘’‚]{2,}+(?:['‘’‚](?=\p{L})[^'‘’‚]++)*+)['‘’‚](?!\p{L})"
)
_CLOSES_SINGLE = regex.compile(r"['‘’](?!\p{L})")
# A mark of a quotation that has no other one: of inches one stands alone.
_UNPAIRED = regex.compile(r"(?<!\d)\"|[“”„«»‹›「」『』《》]")
_ANY_MARK = regex.compile(r"[\"“”„«»‹›「」『』《》]")
# How often quotations within others are looked for.
_NESTED = 5
# Marks of quotations that are names keep out of the way of others as signs that no text has.
_MARKS = sorted({mark for pair in _PAIRS for mark in pair} | {*"'‘’‚"})
_SET_ASIDE = {ord(mark): 0xE000 + number for number, mark in enumerate(_MARKS)}
_PUT_BACK = {aside: mark for mark, aside in _SET_ASIDE.items()}
# How characters look. Other spaces and ends of lines, full-width signs, and other forms of the
# marks of quotations.
_LOOKS: dict[int, str | None] = dict.fromkeys(range(0xE000, 0xE100))
_LOOKS |= dict.fromkeys([0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x2800, 0x3164], " ")
_LOOKS |= dict.fromkeys([0x0B, 0x0C, 0x0D, 0x1C, 0x1D, 0x1E, 0x85, 0x2028, 0x2029], "\n")
_LOOKS |= {ord(wide): narrow for wide, narrow in zip("＜＞＇＂｜［］｀", "<>'\"|[]`", strict=True)}
_LOOKS |= dict.fromkeys(map(ord, "″〝〞〟❝❞‟🙶🙷🙸"), '"')
_LOOKS |= dict.fromkeys(map(ord, "´′❛❜‛"), "'")
_LOOKS |= {
    ord(form): mark for form, mark in zip("｢｣〈〉﹁﹂﹃﹄﴾﴿", "「」「」「」『』«»", strict=True)
}
_TYPED_MARKS = (("``", '"'), ("''", '"'), ("<<", "«"), (">>", "»"))
# A message of somebody else's, from this line on.
_FORWARDED = regex.compile(
    r"^[ \t>]*+(?:"
    r"[-–—=_*]{2,}+[ \t]*+\p{L}[\p{L}\p{M} ]{2,60}[-–—=_*]{2,}"  # --- Original message ---
    r"|[-–—=_*]{5,}+"
    r"|[*_]{0,2}(?:"
    r"(?:fwd?|wg|tr|rv)\s?:.*"
    r"|(?:system|assistant|user|human|ai|bot|tool|developer)[*_]{0,2}\s?[:：].*"
    r"|(?:begin forwarded message|forwarded message|weitergeleitete nachricht|message transféré|"
    r"mensaje reenviado)\b.*"
    r"|(?:on|am|le|el|il|op|den|em)\s.{4,120}(?:wrote|schrieb|a écrit|escribió|ha scritto|schreef|"
    r"skrev|escreveu).{0,60}:"
    r"|(?:from|von|de|da|van|från|fra|от|від|差出人|发件人|寄件者|보낸 사람|kimden|od|من|"
    r"प्रेषक|প্রেরক|מאת|ผู้ส่ง|người gửi|pengirim|από|feladó|lähettäjä|avsender)[*_]{0,2}\s?"
    r"[:：]\s*\S.*"
    r"|(?:subject|betreff|objet|asunto|oggetto|assunto|onderwerp|ämne|emne|тема|件名|主题|主旨|제목|konu|"
    r"temat)[*_]{0,2}\s?[:：].*"
    r"))[ \t]*$",
    regex.IGNORECASE | regex.MULTILINE,
)
# Words by which a person hands over a text that stands behind a colon.
_HANDS_OVER = regex.compile(
    r"\b(?:summari[sz]|translat|proofread|paraphras|rewrit|rephras|repl(?:y|ies)|draft|review|"
    r"analy[sz]|check|explain|"
    r"e-?mails?|mails?|letter|article|web\s?page|website|page|document|transcript|ticket|review|"
    r"newsletter|post|thread|"
    r"comment|excerpt|paragraph|passage|text|messages?|memo|sent|forwarded|quot(?:e[ds]?|ing)|"
    r"received|got this|says|said|wrote|writes|read(?:s|ing)?|"
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
    r"סכם|अनुवाद|सारांश|"
    # What others said, wrote or sent.
    r"写|寫|说|說|发来|发了|发给|發來|發了|转发|轉發|傳來|告诉|告訴|来信|來信|書き|書い|言っ|言い|述べ|送って|届い|말했|말하|썼|적혀|보냈|보내|"
    r"लिख|कहा|बोल|भेजा|बताया|पढ़|पढ़|লিখ|বলেছ|বলল|পাঠ|எழுதி|சொன்ன|சொல்|கூறி|அனுப்ப|రాశ|రాసి|చెప్ప|అన్నా|పంప|"
    r"كتب|قال|أرسل|يقول|تقول|أخبر|ذكر|نوشت|گفت|فرستاد|می‌گوید|کہا|لکھا|כתב|אמר|שלח|אומר|"
    r"เขียน|พูด|บอก|กล่าว|ส่งมา|είπε|έγραψε|γράφει|λέει|έστειλε|"
    r"\b(?:каже|сказа|написа|прислал|надісла|viết|nói|gửi|bảo|berkata|menulis|bilang|napsal|řekl|poslal|napisał|"
    r"powiedział|wysłał|dedi|yazdı|söyledi|gönderdi|scris|zis|spus|trimis|írta|mondta|küldte|kirjoitti|sanoi|"
    r"lähetti|skrev|sade|sagde|sendte|schreef|zei|stuurde|schickte|sagte|meinte|disse|escreveu|enviou|dijo|envió|"
    r"disse|inviò|mandato|envoy)",
    regex.IGNORECASE,
)
# Who hands over what they said or wrote themselves hands over no other's text.
_OWN_TEXT = regex.compile(
    r"\b(?:i|we)\s+(?:(?:have|had|just|already|'ve)\s+)*(?:wrote|written|said|told|noted|listed|typed|meant?)\b|"
    r"\bich\s+(?:habe?\s.{0,40}(?:geschrieben|gesagt|notiert)|schrieb|sagte|notierte|meinte)\b|"
    r"\bj['’]ai\s+(?:écrit|dit|noté)\b|\b(?:he|había)\s+(?:escrito|dicho|anotado)\b|\b(?:escribí|dije|anoté)\b|"
    r"\bho\s+(?:scritto|detto|annotato)\b|मैंने.{0,40}(?:लिख|कह|कहा)|我(?:写|寫|说|說)",
    regex.IGNORECASE,
)
# Who speaks of themselves before a text announces words of their own.
_SPEAKER = regex.compile(
    r"\b(?:i|i['’]\w+|we|ich|wir|mir|je|j['’]|nous|yo|nosotros|me|io|noi|eu|nós|ik|wij|jag|vi|jeg|я|мы|ми|мені|ja|mi|ben|"
    r"bana|biz|én|minä|eu|tôi|saya|aku)\b|मैं|मैंने|मुझे|हम|আমি|আমার|நான்|எனக்கு|నేను|నాకు|我|私|僕|俺|저|나는|제가|내가|أنا|אני|ฉัน|ผม",
    regex.IGNORECASE,
)
# How a line ends that begins somebody's words without a colon.
_ENDS_IN_SAYING = regex.compile(
    r"\b(?:said|says|wrote|writes|told me|sagte?|schrieb|schreibt|écrit|dit|escribió|escribe|dijo|dice|scritto|detto|"
    r"escreveu|disse|schreef|zei|skrev|sade|написал|сказал|написала|сказала)[\s–—-]*$"
    r"|(?:写道|说|說|言った|書いた|कहा|लिखा|قال|كتب)[\s–—-]*$",
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
# One line of a log: with its time before the name, or behind it.
_STAMPED_LINE = regex.compile(
    r"^[ \t]*\[?(?:\d{1,4}[-./]\d{1,2}[-./]\d{1,4},?[ T]{1,3})?\d{1,2}[:.]\d\d(?:[:.]\d\d)?(?:\s?[AP]M)?\]?"
    r"[ \t]*-?[ \t]*\p{L}[\p{L}\p{N}. '-]{0,40}[:：]\s"
    r"|^[ \t]*\p{L}[\p{L}. '-]{0,40}[ \t]{1,4}\[?\d{1,2}:\d\d(?:\s?[AP]M)?\]?[ \t]*$",
    regex.IGNORECASE | regex.MULTILINE,
)
# How a letter ends. Nobody ends so what they say to an assistant.
_SIGNS_OFF = regex.compile(
    r"^[ \t]*(?:(?:kind|best|warm) regards|regards|yours (?:sincerely|faithfully|truly)|sincerely|"
    r"mit (?:freundlichen|besten) grüßen|(?:viele|beste|liebe|freundliche) grüße|hochachtungsvoll|"
    r"cordialement|bien à vous|sincères salutations|saludos cordiales|atentamente|un cordial saludo|"
    r"cordiali saluti|distinti saluti|atenciosamente|cumprimentos|met vriendelijke groet|"
    r"med vänlig hälsning|med vennlig hilsen|med venlig hilsen|с уважением|з повагою|z poważaniem|"
    r"saygılarımla|敬具|此致)\b",
    regex.IGNORECASE | regex.MULTILINE,
)
# Stands for lines that were quoted: no text has it (`_LOOKS`).
_QUOTED = "\ue0ff"
_BLANK = regex.compile(r"\n[ \t]*\n")
_COLONS = (":", "：")
# A colon that may stand before a text: none of a time or an address.
_COLON = regex.compile(r"[:：](?=\s|$|[^\d\s/])")


class MessageParts(NamedTuple):
    """A message: the sentences that its person wrote, and the texts that they only brought."""

    own_sentences: list[str]
    foreign_texts: list[str]


def parts_of(message: str) -> MessageParts:
    """What of a message's text its person wrote themselves, and what not. In linear time."""
    foreign_texts = list[str]()
    if len(message) > _MOST_CHARS:
        rest = message[_HEAD_CHARS:]
        foreign_texts.append(rest)
        head = message[:_HEAD_CHARS]
        message, _, _ = head.partition("\n")
    text = _with_plain_marks(message)
    is_letter = _has(_SIGNS_OFF, text)
    if is_letter or _has(_INSTRUCTION_MARKS, text):
        foreign_texts.append(text)
        return MessageParts([], foreign_texts)
    text = _without_fenced(text, foreign_texts)
    text = _without_markup(text, foreign_texts)
    for pattern in (_CODE, _STRUCK, _HIDDEN_LINE):
        text = _without_matches(text, pattern, foreign_texts)
    text = _without_quoted_lines(text, foreign_texts)
    text = _before_match(text, _FORWARDED, foreign_texts)
    text = _without_quotations(text, foreign_texts)
    own_sentences = list[str]()
    for paragraph in _own_paragraphs(text, foreign_texts):
        own_sentences += _own_sentences(paragraph, foreign_texts)
    return MessageParts(own_sentences, foreign_texts)


def announces_a_text(message: str) -> bool:
    """Whether a message ends with words by which a person hands over a text, and a colon. The next
    message is that text then.
    """
    end = message[-_HEAD_CHARS:].rstrip()
    if not end.endswith(_COLONS):
        return False
    _, _, last_line = end.rpartition("\n")
    return _has(_HANDS_OVER, last_line)


def _has(pattern: regex.Pattern[str], text: str) -> bool:
    return pattern.search(text) is not None


def _with_plain_marks(message: str) -> str:
    """A message without invisible characters, with one sign for those that look alike, such as the
    forms of a quotation mark.
    """
    with_line_feeds = message.replace("\r\n", "\n")
    return visible(with_line_feeds).translate(_LOOKS)


def _own_sentences(paragraph: str, foreign_texts: list[str]) -> list[str]:
    """The sentences of a paragraph of the person's. What speaks of them as of a user is added to
    `foreign_texts`; what states nothing is left out.
    """
    own_sentences = list[str]()
    text = paragraph.replace(_QUOTED, "\n")
    for part in _SENTENCE.findall(text):
        sentence = part.strip()
        if _has(_OF_THE_USER, part):
            foreign_texts.append(part)
        elif sentence and _states(sentence):
            own_sentences.append(sentence)
    return own_sentences


def _states(sentence: str) -> bool:
    """Whether a sentence says something: a question does not, unless it asks to remember."""
    is_question = _has(_QUESTION, sentence)
    return not is_question or _has(_REMEMBER, sentence)


def _without_matches(text: str, pattern: regex.Pattern[str], foreign_texts: list[str]) -> str:
    """The text with a line break in place of each match, which is foreign."""
    matches = pattern.finditer(text)
    foreign_texts += [match[0] for match in matches]
    return str(pattern.sub("\n", text))


def _before_match(text: str, pattern: regex.Pattern[str], foreign_texts: list[str]) -> str:
    """The text before the first match of a pattern; the whole text if nothing matches.

    The match and what follows are foreign, unless quoted lines follow it (`_add_brought`).
    """
    match = pattern.search(text)
    if match is None:
        return text
    start = match.start()
    after = text[match.end() :]
    if _is_quoted_by_line(after):
        _add_brought(after, foreign_texts)
    else:
        _add_foreign(text[start:], foreign_texts)
    return text[:start]


def _is_quoted_by_line(text: str) -> bool:
    """Whether a text begins with quoted lines."""
    return text.lstrip().startswith(_QUOTED)


def _add_foreign(text: str, foreign_texts: list[str]) -> None:
    plain = text.replace(_QUOTED, "")
    foreign_texts.append(plain)


def _add_brought(text: str, foreign_texts: list[str]) -> None:
    """Add a text that the person brought to `foreign_texts`, unless it is quoted line by line.

    Then the quoted lines are there already. What stands below them may be the person's answer, or
    more of that text: it is neither foreign nor their word.
    """
    if not _is_quoted_by_line(text):
        _add_foreign(text, foreign_texts)


def _without_fenced(text: str, foreign_texts: list[str]) -> str:
    """The text without what stands between its first and its last fence: a text within fences may
    have some of its own. Of an odd number the last one is open: all that follows is fenced.
    """
    fences = list(_FENCE.finditer(text))
    if not fences:
        return text
    start = fences[0].start()
    end = fences[-1].end()
    is_open = len(fences) % 2 == 1
    if is_open:
        end = len(text)
    return _without_part(text, start, end, foreign_texts)


def _without_markup(text: str, foreign_texts: list[str]) -> str:
    """The text without what stands between its first and its last element: an element may have
    others, and words between them. If the last one is not closed, all that follows is taken out.
    """
    tags = list(_TAG.finditer(text))
    if not tags:
        return text
    start = tags[0].start()
    last_start = tags[-1].start()
    last_tag = _LAST_TAG.match(text, last_start)
    end = len(text)
    if last_tag:
        end = last_tag.end()
    return _without_part(text, start, end, foreign_texts)


def _without_part(text: str, start: int, end: int, foreign_texts: list[str]) -> str:
    """The text with a line break in place of the part between two places, which is foreign."""
    part = text[start:end]
    foreign_texts.append(part)
    before = text[:start]
    after = text[end:]
    return f"{before}\n{after}"


def _without_quoted_lines(text: str, foreign_texts: list[str]) -> str:
    """The text with `_QUOTED` in place of lines that are quoted, or are rows of a table."""
    has_table = _has(_TABLE, text)
    lines = list[str]()
    is_below_quoted = False
    for line in text.split("\n"):
        is_row = has_table and "|" in line
        is_quoted = is_row or _QUOTED_LINE.match(line) is not None
        if not is_quoted:
            lines.append(line)
        else:
            foreign_texts.append(line)
            if not is_below_quoted:
                lines.append(_QUOTED)
        is_below_quoted = is_quoted
    return "\n".join(lines)


def _without_quotations(text: str, foreign_texts: list[str]) -> str:
    """The text without what is quoted. Where a mark stands alone, the quotation begins with the first
    mark and has no end. A quotation of a few words stays, which is a name or a term.
    """

    def replaced(match: regex.Match[str]) -> str:
        # The marks of a name are set aside, so that they open no other quotation.
        quotation = match[1]
        words = pieces(quotation)
        if len(words) <= _QUOTED_WORDS:
            name = match[0]
            return str(name.translate(_SET_ASIDE))
        foreign_texts.append(quotation.translate(_PUT_BACK))
        return " … "

    for typed, mark in _TYPED_MARKS:
        text = text.replace(typed, mark)
    whole = text
    for _ in range(_NESTED):
        before = text
        for pattern in (*_QUOTATIONS, _LINK):
            text = pattern.sub(replaced, text)
        if text == before:
            break
    if _has(_UNPAIRED, text):
        text = _before_match(whole, _ANY_MARK, foreign_texts)
    end = _end_of_single_quotations(text)
    with_pairs = text[:end]
    rest = text[end:]
    text = _SINGLE.sub(replaced, with_pairs) + rest
    return text.translate(_PUT_BACK)


def _end_of_single_quotations(text: str) -> int:
    """Where the last single mark is that may close a quotation; 0 if there is none."""
    end = 0
    for match in _CLOSES_SINGLE.finditer(text):
        end = match.end()
    return end


def _own_paragraphs(text: str, foreign_texts: list[str]) -> list[str]:
    """The paragraphs that a person wrote, or the beginnings of these, up to the first text that they
    pasted, handed over or announced.

    What is not among them is foreign, but for what stands below quoted lines (`_add_brought`) or below
    a line that announces it.
    """
    own_paragraphs = list[str]()
    is_long = length_of(text) > LONG_MESSAGE
    paragraphs = _BLANK.split(text)
    for number, paragraph in enumerate(paragraphs):
        is_pasted = is_long and number > 0
        if is_pasted or _OPENS_A_LETTER.match(paragraph):
            rest = _joined(paragraphs[number:])
            _add_foreign(rest, foreign_texts)
            break
        is_too_long = length_of(paragraph) > LONG_PARAGRAPH
        if is_too_long or _is_log(paragraph):
            _add_foreign(paragraph, foreign_texts)
            continue
        following = paragraphs[number + 1 :]
        own, handed_over = _until_handed_over(paragraph)
        own_end = _end_of_announcement(own)  # None: all of it is the person's
        own_paragraphs.append(own[:own_end])
        if handed_over is not None:
            brought_text = _joined([handed_over, *following])
            _add_brought(brought_text, foreign_texts)
            break
        if own_end is not None:
            break
        if _is_line_that_hands_over(paragraph):
            next_text = _joined(following)
            _add_brought(next_text, foreign_texts)
            break
    return own_paragraphs


def _joined(paragraphs: Iterable[str]) -> str:
    return "\n\n".join(paragraphs)


def _is_log(paragraph: str) -> bool:
    """Whether a paragraph is a conversation of others: a speaker in it speaks twice, or a line has
    its time.
    """
    if _has(_STAMPED_LINE, paragraph):
        return True
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
    """What a person says before a text that they hand over, and that text, which stands behind a
    colon or below the first line. The whole paragraph and None if they hand over none.
    """
    for match in _COLON.finditer(paragraph):
        start, end = match.span()
        before = paragraph[:start]
        sentences = _SENTENCE.findall(before)
        if sentences and _hands_over(sentences[-1]):
            return before, paragraph[end:]
    first_line, line_break, rest = paragraph.partition("\n")
    if line_break and _hands_over_next_line(first_line):
        return first_line, rest
    return paragraph, None


def _end_of_announcement(paragraph: str) -> int | None:
    """Where the first line ends that announces a text; None if no line does."""
    end = -1
    for line in paragraph.split("\n"):
        end += 1 + len(line)
        if line.strip() and _announces(line):
            return end
    return None


def _announces(line: str) -> bool:
    """Whether a line announces a text in words that are not known: it ends with a colon, or says who
    wrote and does not end, and nobody speaks of themselves in it.
    """
    if _has(_SPEAKER, line) or _has(_REMEMBER, line):
        return False
    ends_in_colon = line.rstrip().endswith(_COLONS)
    return ends_in_colon or _has(_ENDS_IN_SAYING, line)


def _hands_over(sentence: str) -> bool:
    """Whether a sentence before a colon hands over a text of somebody else's."""
    if not _has(_HANDS_OVER, sentence):
        return False
    if _has(_OWN_TEXT, sentence):
        return False
    return not _has(_REMEMBER, sentence)


def _is_line_that_hands_over(paragraph: str) -> bool:
    """Whether a paragraph is one line that hands over the text below it."""
    is_one_line = "\n" not in paragraph.strip()
    return is_one_line and _hands_over_next_line(paragraph)


def _hands_over_next_line(line: str) -> bool:
    """Whether a line hands over the text below it, without a colon."""
    if _has(_REMEMBER, line):
        return False
    return _has(_HANDS_OVER_THIS, line)
