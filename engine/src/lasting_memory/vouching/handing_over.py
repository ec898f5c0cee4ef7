"""How a person hands over a text: with words like "translate this:", and the text behind a colon or
below the line.

A line *announces* a text if it ends so that a text must follow, in whichever words. Of what follows
such a line nobody knows whose it is.
"""

# ruff: noqa: RUF001  # colons of all scripts are meant

import regex

from lasting_memory.vouching.foreign_texts import has_match

# The beginning of a message, and as much of its end. In characters.
HEAD_CHARS = 500
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
ASKS_TO_REMEMBER = regex.compile(
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
SENTENCE = regex.compile(r".+?(?:[.!?…？！。｡।॥۔։؟](?=\s|$)|[。！？｡]|\n|$)\s*", regex.DOTALL)
_COLONS = (":", "：")
# A colon that may stand before a text: none of a time or an address.
_COLON = regex.compile(r"[:：](?=\s|$|[^\d\s/])")


def announces_a_text(message: str) -> bool:
    """Whether a message ends with words by which a person hands over a text, and a colon. The next
    message is that text then.
    """
    end = message[-HEAD_CHARS:].rstrip()
    if not end.endswith(_COLONS):
        return False
    _, _, last_line = end.rpartition("\n")
    return has_match(_HANDS_OVER, last_line)


def until_handed_over(paragraph: str) -> tuple[str, str | None]:
    """What a person says before a text that they hand over, and that text, which stands behind a
    colon or below the first line. The whole paragraph and None if they hand over none.
    """
    for match in _COLON.finditer(paragraph):
        start, end = match.span()
        text_before = paragraph[:start]
        sentences = SENTENCE.findall(text_before)
        if sentences and _hands_over(sentences[-1]):
            return text_before, paragraph[end:]
    first_line, line_break, rest = paragraph.partition("\n")
    if line_break and _hands_over_next_line(first_line):
        return first_line, rest
    return paragraph, None


def end_of_announcement(paragraph: str) -> int | None:
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
    if has_match(_SPEAKER, line) or has_match(ASKS_TO_REMEMBER, line):
        return False
    ends_in_colon = line.rstrip().endswith(_COLONS)
    return ends_in_colon or has_match(_ENDS_IN_SAYING, line)


def _hands_over(sentence: str) -> bool:
    """Whether a sentence before a colon hands over a text of somebody else's."""
    if not has_match(_HANDS_OVER, sentence):
        return False
    if has_match(_OWN_TEXT, sentence):
        return False
    return not has_match(ASKS_TO_REMEMBER, sentence)


def is_line_that_hands_over(paragraph: str) -> bool:
    """Whether a paragraph is one line that hands over the text below it."""
    is_one_line = "\n" not in paragraph.strip()
    return is_one_line and _hands_over_next_line(paragraph)


def _hands_over_next_line(line: str) -> bool:
    """Whether a line hands over the text below it, without a colon."""
    if has_match(ASKS_TO_REMEMBER, line):
        return False
    return has_match(_HANDS_OVER_THIS, line)
