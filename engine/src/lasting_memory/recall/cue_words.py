"""Cue words: by which a question says that it asks for the newest, or for what an assistant said.

They are few on purpose. A question without one is answered as ever: all of its words count as they
do, and nothing is newer than something else.

Each text names words and phrases, divided by commas. A star at the end stands for any ending.
Accents make no difference. In writing without spaces a phrase counts wherever it stands.
"""

from collections.abc import Iterable, Mapping
from functools import cache

from lasting_memory.words import folded, words

# ruff: noqa: RUF001  # letters of other scripts are meant

# The newest is meant: what is so now, what was last, what comes next.
NEWEST = {
    "english": (
        "now, nowadays, still, current*, latest, newest, last, lately, recent*, next, upcoming,"
        " today, anymore, any more, no longer, so far, these days, at the moment, at present,"
        " updated, up to date"
    ),
    "german": (
        "jetzt, jetzig*, noch, aktuell*, derzeit*, momentan*, zurzeit, zur Zeit, zuletzt, letzt*,"
        " neueste*, neuste*, jüngste*, nächste*, kommende*, heute, heutig*, inzwischen,"
        " mittlerweile, gerade, nicht mehr"
    ),
    "dutch": (
        "nu, nog, huidig*, momenteel, laatst*, recent*, nieuwste, volgend*, vandaag, tegenwoordig,"
        " inmiddels, niet meer"
    ),
    "french": (
        "maintenant, encore, toujours, actuel*, dernier*, dernière*, récent*, récemment, prochain*,"
        " aujourd'hui, en ce moment, ces jours, désormais, à présent"
    ),
    "spanish": (
        "ahora, todavía, aún, sigo, sigue*, seguimos, actual*, hoy, último*, última*, reciente*,"
        " próximo*, próxima*, siguiente*, ya no, más nuev*"
    ),
    "portuguese": (
        "agora, ainda, atual*, actual*, hoje, último*, última*, ultimamente, recente*, próximo*,"
        " próxima*, seguinte*, já não, não mais"
    ),
    "italian": (
        "ora, adesso, ancora, attual*, oggi, ultimo, ultima, ultimi, ultime, ultimamente, recent*,"
        " prossim*, non più, al momento"
    ),
    "russian": (
        "сейчас, теперь, ещё, до сих пор, нынешн*, текущ*, последн*, недавн*, следующ*, ближайш*,"
        " сегодня, больше не, на данный момент"
    ),
    "ukrainian": (
        "зараз, тепер, досі, ще, нинішн*, поточн*, останн*, нещодавн*, наступн*, найближч*,"
        " сьогодні, наразі, більше не"
    ),
    "swedish": (
        "nu, nuvarande, fortfarande, senast*, sista, nyligen, nästa, kommande, idag, i dag,"
        " aktuell*, numera, inte längre"
    ),
    "norwegian": (
        "nå, nåværende, fortsatt, fremdeles, ennå, sist*, nylig, neste, kommende, i dag, aktuell*,"
        " ikke lenger"
    ),
    "danish": (
        "nu, nuværende, stadig, endnu, senest*, sidst*, nylig*, næste, kommende, i dag, aktuel*,"
        " ikke længere"
    ),
    "turkish": (
        "şimdi*, şu an*, hâlâ, halen, son, güncel*, mevcut, en yeni, sonraki, gelecek, bugün, artık"
    ),
    "greek": "τώρα, ακόμα, ακόμη, σήμερα, τελευταί*, πρόσφατ*, επόμεν*, τωριν*, πλέον",
    "armenian": "հիմա, այժմ, դեռ, վերջին, հաջորդ, այսօր, ներկայիս",
    "arabic": (
        "الآن, حاليا, الحالي*, ما زال*, لا يزال, لا تزال, مازال*, آخر, أحدث, الأخير*, مؤخرا,"
        " القادم*, المقبل*, التالي*, اليوم, حتى الآن"
    ),
    "persian": (
        "اکنون, الان, حالا, هنوز, فعلی, کنونی, فعلا, آخرین, جدیدترین, اخیر*, بعدی, آینده, امروز,"
        " این روزها, در حال حاضر"
    ),
    "hindi": (
        "अब, अभी, फ़िलहाल, फिलहाल, आजकल, वर्तमान, मौजूदा, आख़िरी, आखिरी, पिछला, पिछली, पिछले,"
        " हाल ही, ताज़ा, ताजा, नवीनतम, अगला, अगली, अगले, आज, इस समय"
    ),
    "bengali": (
        "এখন*, বর্তমান*, আজকাল, সর্বশেষ, শেষবার, সাম্প্রতিক, সম্প্রতি, পরের, পরবর্তী, আগামী, আজ,"
        " এই মুহূর্তে, ইদানীং"
    ),
    "tamil": ("இப்போது*, இப்பொழுது*, இன்னும், தற்போது*, தற்போதைய, கடைசி*, சமீப*, அண்மை*, அடுத்த, இன்று"),
    "telugu": ("ఇప్పుడు, ఇప్పటి*, ఇంకా, ప్రస్తుత*, చివరి*, తాజా, ఇటీవల*, తదుపరి, తర్వాతి, వచ్చే, నేడు, ఈరోజు, ఈ రోజు"),
    "vietnamese": (
        "bây giờ, hiện nay, hiện tại, hiện giờ, hiện đang, vẫn còn, gần đây, mới nhất, gần nhất,"
        " mới đây, lần cuối, cuối cùng, sắp tới, tiếp theo, hôm nay"
    ),
}
NEWEST_UNSPACED = (
    "今, 現在, まだ, 最新, 最近, 最後, 最終, 直近, 前回, 次の, 次回, 次は, 次に,"
    " 现在, 目前, 如今, 还在, 還在, 还住, 還住, 仍, 依然, 最后, 最後, 上次, 下次, 下一, 当前, 當前, 近来, 至今,"
    " ตอนนี้, ปัจจุบัน, ยังคง, ยังอยู่, ล่าสุด, สุดท้าย, ถัดไป, ต่อไป, ครั้งหน้า, วันนี้, เดี๋ยวนี้,"
    " 지금, 현재, 아직, 여전히, 요즘, 최근, 최신, 마지막, 다음, 오늘"
)

# What an assistant said, recommended or made is meant: "did you", "the plan we made".
ASSISTANT = {
    "english": (
        "did you, have you, you said, you told, you recommended, you suggested, you explained,"
        " you gave, you mentioned, you listed, you wrote, you drafted, you created, you made,"
        " you designed, you outlined, you proposed, you advised, you previously, you already, you once,"
        " was recommended, were recommended, was suggested, were suggested,"
        " your advice, your answer*, your recommendation*, your suggestion*, your explanation*,"
        " your plan*, your list*, your tips, we made, we created, we built, we discussed, we drafted,"
        " we outlined, we designed, we agreed, we planned, we worked out, we put together, the plan,"
        " that plan, the list, that list, the steps, next step*, the recipe, the draft, the outline,"
        " the schedule, the roadmap, the template, the code, the script, the itinerary,"
        " the instructions"
    ),
    "german": (
        "hast du, haben Sie, hattest du, du gesagt, empfohlen*, vorgeschlagen*, geraten,"
        " erklärt, aufgelistet, aufgeschrieben, erstellt*, entworfen*, ausgearbeitet, besprochen*,"
        " vereinbart, dein Rat, deine Antwort*, deine Empfehlung*, dein Vorschlag, deine Vorschläge,"
        " deine Tipps, deine Liste, dein Plan, der Plan, den Plan, dem Plan, die Liste, der Liste,"
        " die Schritte, nächste Schritt*, nächsten Schritt*, das Rezept, der Entwurf, den Entwurf,"
        " die Anleitung"
    ),
    "dutch": (
        "heb je, hebt u, je zei, je gaf, aangeraden, aanbevolen, voorgesteld, geadviseerd, uitgelegd,"
        " opgesteld, besproken, je advies, jouw advies, je antwoord, je voorstel*, je tips, het plan,"
        " de lijst, de stappen, volgende stap*, het recept, het schema, het concept"
    ),
    "french": (
        "as-tu, avez-vous, tu as, tu m'as, vous m'avez, vous avez, recommandé*, conseillé*,"
        " suggéré*, proposé*, expliqué*, tes conseils, ton conseil, votre conseil, vos conseils,"
        " ta réponse, votre réponse, tes suggestions, vos suggestions, avons fait, avons préparé,"
        " avons discuté, le plan, la liste, les étapes, prochaine étape, la recette, le brouillon,"
        " le programme, le calendrier"
    ),
    "spanish": (
        "recomendaste, recomendó, recomendado*, recomendaron, sugeriste, sugirió, sugerido*,"
        " aconsejaste, aconsejó, propusiste, propuso, dijiste, explicaste, me diste, escribiste,"
        " preparaste, mencionaste, hicimos, acordamos, preparamos, tu consejo, tus consejos,"
        " tu respuesta, tu recomendación, tus recomendaciones, tu sugerencia, tus sugerencias,"
        " el plan, la lista, los pasos, siguiente paso, próximo paso, la receta, el borrador,"
        " el esquema, el itinerario, el calendario"
    ),
    "portuguese": (
        "recomendaste, recomendou, recomendado*, sugeriste, sugeriu, sugerido*, aconselhaste,"
        " aconselhou, propuseste, propôs, você disse, disseste, explicaste, explicou, me deu,"
        " deste-me, fizemos, combinamos, teu conselho, seu conselho, tua resposta, sua resposta,"
        " suas sugestões, o plano, a lista, os passos, próximo passo, a receita, o rascunho,"
        " o roteiro, o cronograma"
    ),
    "italian": (
        "hai detto, hai scritto, hai dato, hai fatto, mi hai, consigliato*, suggerito*,"
        " raccomandato*, proposto*, spiegato*, tuo consiglio, tuoi consigli, tua risposta,"
        " tuoi suggerimenti, abbiamo fatto, abbiamo preparato, abbiamo discusso, il piano, la lista,"
        " l'elenco, i passi, prossimo passo, la ricetta, la bozza, il programma, il calendario"
    ),
    "russian": (
        "ты сказал*, вы сказали, ты говорил*, вы говорили, посоветовал*, советовал*,"
        " рекомендовал*, порекомендовал*, предложил*, предлагал*, объяснил*, объяснял*, ты дал*,"
        " вы дали, ты написал*, вы написали, твой совет, твои советы, ваш совет, ваши советы,"
        " твой ответ, ваш ответ, мы составили, мы обсуждали, мы обсудили, план, плана, плане, список,"
        " списка, списке, шаги, шагов, рецепт, черновик, инструкци*"
    ),
    "ukrainian": (
        "ти сказав, ти казав, ти сказала, ви сказали, порадив, порадила, порадили, радив, радили,"
        " рекомендував*, рекомендували, порекомендув*, запропонував*, пропонував*, пояснив*,"
        " пояснював*, ти дав, ви дали, твоя порада, твої поради, ваша порада, ваші поради, ми склали,"
        " ми обговорювали, план, плану, плані, список, списку, кроки, кроків, рецепт, чернетк*,"
        " інструкці*"
    ),
    "swedish": (
        "har du, sa du, du sa, du gav, rekommenderade*, rekommenderat, föreslog*, föreslagit, tipsade,"
        " förklarade, ditt råd, dina råd, ditt svar, dina förslag, planen, listan, stegen, nästa steg,"
        " receptet, utkastet, schemat"
    ),
    "norwegian": (
        "har du, sa du, du sa, du ga, anbefalte*, anbefalt, foreslo*, foreslått, forklarte, rådet ditt,"
        " rådene dine, svaret ditt, planen, listen, lista, trinnene, neste steg, neste trinn,"
        " oppskriften, utkastet"
    ),
    "danish": (
        "har du, sagde du, du sagde, du gav, anbefalede*, anbefalet, foreslog*, foreslået, forklarede,"
        " dit råd, dine råd, dit svar, planen, listen, trinene, næste skridt, næste trin, opskriften,"
        " udkastet"
    ),
    "turkish": (
        "önerdin*, önermiştin*, önerdiğin*, tavsiye, dedin*, söyledin*, söylemiştin*, açıkladın*,"
        " verdin*, yazdın*, hazırladın*, hazırladığın*, yaptığımız, hazırladığımız, konuştuğumuz, plan,"
        " planı, planın, liste, listesi, listeyi, adımlar*, sonraki adım*, tarif, tarifi, taslak,"
        " taslağı"
    ),
    "greek": (
        "είπες, είπατε, πρότεινες, προτείνατε, συνέστησες, συστήσατε, συμβούλεψες, συμβουλέψατε,"
        " εξήγησες, εξηγήσατε, έδωσες, δώσατε, έγραψες, γράψατε, η συμβουλή, οι συμβουλές, το σχέδιο,"
        " η λίστα, τη λίστα, τα βήματα, επόμενο βήμα, η συνταγή, το πρόγραμμα"
    ),
    "armenian": "խորհուրդ*, առաջարկ*, ասացիր, բացատրեցիր, պլան*, ցուցակ*, քայլեր*",
    "arabic": (
        "نصحت*, أوصيت*, اقترحت*, قلت لي, شرحت*, أعطيتني, كتبت لي, ذكرت لي, نصيحتك, نصائحك, اقتراحك,"
        " اقتراحاتك, توصيتك, توصياتك, جوابك, الخطة, القائمة, الخطوات, الخطوة التالية, الوصفة, المسودة,"
        " الجدول, خطة, قائمة"
    ),
    "persian": (
        "پیشنهاد*, توصیه*, گفتی, گفتید, توضیح*, دادی, دادید, نوشتی, نوشتید, نصیحت*, برنامه‌ای, برنامه ای, فهرست*,"
        " لیست*, مراحل, قدم بعدی, دستور پخت, پیش‌نویس, نقشه راه"
    ),
    "hindi": (
        "सलाह, सुझाव*, सुझाया, सुझाई, सुझाए, सिफ़ारिश*, सिफारिश*, बताया था, बताई थी, बताए थे, तुमने, आपने,"
        " समझाया, योजना, सूची, लिस्ट, कदम, चरण, विधि, मसौदा"
    ),
    "bengali": (
        "পরামর্শ*, সুপারিশ*, প্রস্তাব*, তুমি বলেছিলে, আপনি বলেছিলেন, বলেছিলে, বলেছিলেন, বুঝিয়েছিলে*,"
        " দিয়েছিলে, লিখেছিলে*, পরিকল্পনা*, তালিকা*, ধাপ*, পদক্ষেপ*, রেসিপি*, খসড়া*"
    ),
    "tamil": (
        "பரிந்துரை*, ஆலோசனை*, அறிவுரை*, யோசனை*, நீங்கள் சொன்ன*, சொன்னீர்கள், சொன்னாய், விளக்கினீர்கள்,"
        " கொடுத்தீர்கள், திட்டம், திட்டத்தை, திட்டத்தில், பட்டியல்*, படிகள், வழிமுறை*, வரைவு"
    ),
    "telugu": (
        "సలహా*, సూచన*, సూచించా*, సిఫార్సు*, సిఫారసు*, మీరు చెప్పిన*, మీరు చెప్పారు, చెప్పావు, వివరించా*,"
        " ఇచ్చావు, ప్రణాళిక*, జాబితా*, దశలు, దశల, రెసిపీ*, ముసాయిదా"
    ),
    "vietnamese": (
        "bạn nói, bạn đã, bạn khuyên, bạn gợi ý, bạn đề xuất, bạn bảo, khuyên tôi, gợi ý, đề xuất,"
        " lời khuyên, giới thiệu cho, giải thích, kế hoạch, danh sách, các bước, bước tiếp theo,"
        " công thức, bản nháp, lịch trình, lộ trình"
    ),
}
ASSISTANT_UNSPACED = (
    "勧め, 薦め, おすすめ, オススメ, 提案, アドバイス, 助言, 教えてくれた, 言ってくれた, 言ってた, 説明し, 作ってくれた,"
    " 一緒に作った, 計画, リスト, 一覧, 手順, プラン, レシピ, 下書き,"
    " 推荐, 推薦, 建议, 建議, 你说, 你說, 你给, 你給, 你写, 你寫, 你提, 您说, 您說, 您给, 解释, 解釋, 我们制定, 我們制定, 计划,"
    " 計劃, 清单, 清單, 列表, 步骤, 步驟, 方案, 草稿, 食谱, 食譜,"
    " แนะนำ, เสนอ, คุณบอก, คุณพูด, คุณให้, คุณเขียน, อธิบาย, แผนการ, รายการ, ขั้นตอน, สูตร, ฉบับร่าง,"
    " 추천, 제안, 조언, 설명, 계획, 목록, 리스트, 단계, 초안, 레시피"
)


def asks_for_newest(query: str, languages: Iterable[str]) -> bool:
    """Whether a query says that the newest is meant, in one of these languages."""
    return _has_cue(query, languages, NEWEST, NEWEST_UNSPACED)


def asks_for_answers(query: str, languages: Iterable[str]) -> bool:
    """Whether a query says that an assistant's words are meant, in one of these languages."""
    return _has_cue(query, languages, ASSISTANT, ASSISTANT_UNSPACED)


def _has_cue(
    query: str, languages: Iterable[str], tables: Mapping[str, str], unspaced_table: str
) -> bool:
    """Whether a query has a cue of these languages' tables, or of the one of writing without
    spaces.
    """
    text = folded(query)
    if _has_any(text, _unspaced_cues(unspaced_table)):
        return True
    words_of_text = " ".join(words(text))
    spaced_text = f" {words_of_text} "
    for language in languages:
        table = tables.get(language, "")
        if _has_any(spaced_text, _cues(table)):
            return True
    return False


def _has_any(text: str, cues: Iterable[str]) -> bool:
    """Whether a text has one of these cues."""
    return any(cue in text for cue in cues)


@cache
def _unspaced_cues(table: str) -> tuple[str, ...]:
    """The cues of a table of writing without spaces, as they stand in a folded text."""
    cues = list[str]()
    for phrase in table.split(","):
        bare_phrase = phrase.strip()
        cues.append(folded(bare_phrase))
    return tuple(cues)


@cache
def _cues(table: str) -> tuple[str, ...]:
    """The cues of a table, as they stand in the words of a folded text, each between two spaces.

    A phrase with a star has no space at its end, so that it fits any ending.
    """
    cues = list[str]()
    for phrase in table.split(","):
        if not phrase:
            continue
        words_of_phrase = words(folded(phrase))
        cue = " " + " ".join(words_of_phrase)
        if not phrase.endswith("*"):
            cue += " "
        cues.append(cue)
    return tuple(cues)
