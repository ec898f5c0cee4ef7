"""What of a message its person wrote themselves: what is quoted, fenced, forwarded, pasted or very
long stands apart.

The person's own sentences are what is left once all such texts are taken out. A text that is taken out
is a foreign text (`foreign_texts.py`): it is somebody else's, and vouches for nothing. Among them are
quotations (`quotations.py`), and texts that a person hands over (`handing_over.py`).
"""

# ruff: noqa: RUF001  # quotation marks of all languages are meant

from collections.abc import Iterable
from typing import NamedTuple

import regex

from lasting_memory.vouching.foreign_texts import (
    QUOTED,
    add_brought,
    add_foreign,
    before_match,
    has_match,
    without_matches,
    without_part,
)
from lasting_memory.vouching.handing_over import (
    ASKS_TO_REMEMBER,
    HEAD_CHARS,
    SENTENCE,
    end_of_announcement,
    is_line_that_hands_over,
    until_handed_over,
)
from lasting_memory.vouching.quotations import without_quotations
from lasting_memory.words import length_of, visible

# A paragraph of a message that is longer was pasted; so was what follows the first paragraph of a
# message that is longer as a whole. In characters of an alphabet.
LONG_PARAGRAPH = 600
LONG_MESSAGE = 1_500
# Of a message with more characters only the beginning of its first line may be the person's
# (`HEAD_CHARS`).
_MOST_CHARS = 20_000
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
# How characters look. Other spaces and ends of lines, full-width signs, and other forms of the
# marks of quotations.
_LOOKS: dict[int, str | None] = dict.fromkeys(range(0xE000, 0xE100))
_LOOKS |= dict.fromkeys([0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x2800, 0x3164], " ")
_LOOKS |= dict.fromkeys([0x0B, 0x0C, 0x0D, 0x1C, 0x1D, 0x1E, 0x85, 0x2028, 0x2029], "\n")
_LOOKS |= {
    ord(wide_sign): narrow_sign
    for wide_sign, narrow_sign in zip("＜＞＇＂｜［］｀", "<>'\"|[]`", strict=True)
}
_LOOKS |= dict.fromkeys(map(ord, "″〝〞〟❝❞‟🙶🙷🙸"), '"')
_LOOKS |= dict.fromkeys(map(ord, "´′❛❜‛"), "'")
_LOOKS |= {
    ord(form): mark for form, mark in zip("｢｣〈〉﹁﹂﹃﹄﴾﴿", "「」「」「」『』«»", strict=True)
}
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
_BLANK = regex.compile(r"\n[ \t]*\n")


class MessageParts(NamedTuple):
    """A message: the sentences that its person wrote, and the texts that they only brought."""

    own_sentences: list[str]
    foreign_texts: list[str]


def parts_of(message: str) -> MessageParts:
    """What of a message's text its person wrote themselves, and what not. In linear time."""
    foreign_texts = list[str]()
    if len(message) > _MOST_CHARS:
        rest = message[HEAD_CHARS:]
        foreign_texts.append(rest)
        head = message[:HEAD_CHARS]
        message, _, _ = head.partition("\n")
    text = _with_plain_marks(message)
    is_letter = has_match(_SIGNS_OFF, text)
    if is_letter or has_match(_INSTRUCTION_MARKS, text):
        foreign_texts.append(text)
        return MessageParts([], foreign_texts)
    text = _without_fenced(text, foreign_texts)
    text = _without_markup(text, foreign_texts)
    for pattern in (_CODE, _STRUCK, _HIDDEN_LINE):
        text = without_matches(text, pattern, foreign_texts)
    text = _without_quoted_lines(text, foreign_texts)
    text = before_match(text, _FORWARDED, foreign_texts)
    text = without_quotations(text, foreign_texts)
    own_sentences = list[str]()
    for paragraph in _own_paragraphs(text, foreign_texts):
        own_sentences += _own_sentences(paragraph, foreign_texts)
    return MessageParts(own_sentences, foreign_texts)


def _with_plain_marks(message: str) -> str:
    """A message without invisible characters, with one sign for those that look alike, such as the
    forms of a quotation mark.
    """
    text_with_line_feeds = message.replace("\r\n", "\n")
    return visible(text_with_line_feeds).translate(_LOOKS)


def _own_sentences(paragraph: str, foreign_texts: list[str]) -> list[str]:
    """The sentences of a paragraph of the person's. What speaks of them as of a user is added to
    `foreign_texts`; what states nothing is left out.
    """
    own_sentences = list[str]()
    text = paragraph.replace(QUOTED, "\n")
    for part in SENTENCE.findall(text):
        sentence = part.strip()
        if has_match(_OF_THE_USER, part):
            foreign_texts.append(part)
        elif sentence and _states(sentence):
            own_sentences.append(sentence)
    return own_sentences


def _states(sentence: str) -> bool:
    """Whether a sentence says something: a question does not, unless it asks to remember."""
    is_question = has_match(_QUESTION, sentence)
    return not is_question or has_match(ASKS_TO_REMEMBER, sentence)


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
    return without_part(text, start, end, foreign_texts)


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
    return without_part(text, start, end, foreign_texts)


def _without_quoted_lines(text: str, foreign_texts: list[str]) -> str:
    """The text with `QUOTED` in place of lines that are quoted, or are rows of a table."""
    has_table = has_match(_TABLE, text)
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
                lines.append(QUOTED)
        is_below_quoted = is_quoted
    return "\n".join(lines)


def _own_paragraphs(text: str, foreign_texts: list[str]) -> list[str]:
    """The paragraphs that a person wrote, or the beginnings of these, up to the first text that they
    pasted, handed over or announced.

    What is not among them is foreign, but for what stands below quoted lines (`add_brought`) or below
    a line that announces it.
    """
    own_paragraphs = list[str]()
    is_long = length_of(text) > LONG_MESSAGE
    paragraphs = _BLANK.split(text)
    for number, paragraph in enumerate(paragraphs):
        is_pasted = is_long and number > 0
        if is_pasted or _OPENS_A_LETTER.match(paragraph):
            rest = _joined(paragraphs[number:])
            add_foreign(rest, foreign_texts)
            break
        is_too_long = length_of(paragraph) > LONG_PARAGRAPH
        if is_too_long or _is_log(paragraph):
            add_foreign(paragraph, foreign_texts)
            continue
        following_paragraphs = paragraphs[number + 1 :]
        own_text, handed_over_text = until_handed_over(paragraph)
        own_end = end_of_announcement(own_text)  # None: all of it is the person's
        own_paragraphs.append(own_text[:own_end])
        if handed_over_text is not None:
            brought_text = _joined([handed_over_text, *following_paragraphs])
            add_brought(brought_text, foreign_texts)
            break
        if own_end is not None:
            break
        if is_line_that_hands_over(paragraph):
            next_text = _joined(following_paragraphs)
            add_brought(next_text, foreign_texts)
            break
    return own_paragraphs


def _joined(paragraphs: Iterable[str]) -> str:
    return "\n\n".join(paragraphs)


def _is_log(paragraph: str) -> bool:
    """Whether a paragraph is a conversation of others: a speaker in it speaks twice, or a line has
    its time.
    """
    if has_match(_STAMPED_LINE, paragraph):
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
