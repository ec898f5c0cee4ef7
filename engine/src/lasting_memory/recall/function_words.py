"""Function words of languages for which no library here has a list: the most frequent ones, and
those that ask.

Search leaves them out, and so do the comparisons of facts and of who vouches for a line (by
`lexical.stems`). With a change of these lists `format.FORMAT` counts up.

They are few on purpose: a word that is missing here weighs little anyhow, because it is in most
texts. Negations are none.
"""

# ruff: noqa: RUF001  # letters of other scripts are meant

# Those that the list of a library lacks: prepositions with an article, and words that ask.
MORE_FUNCTION_WORDS = {
    "german": (
        "beim ans fürs aufs übers durchs ums unters vors hinterm überm unterm warum wieso weshalb"
        " wann wohin woher wer"
    ),
}
FUNCTION_WORDS = {
    "arabic": (
        "في من على إلى عن مع هو هي هم أنا أنت نحن هذا هذه ذلك تلك الذي التي ما ماذا"
        " متى أين كيف لماذا هل كم أي قد كان كانت يكون أن إن أو ثم و لكن كل بعد قبل"
        " عند لي له لها لنا بي به بها"
    ),
    "persian": (
        "و در به از که را با است این آن برای تا بر هم من تو او ما شما ها بود شد می"
        " هست چه چی کی کجا چرا چطور چند آیا یا اما اگر هر یک باید کرد کرده خود دارم"
        " دارد ام ای اند بودم کدام"
    ),
    "hindi": (
        "का के की को से में पर है हैं था थी थे हूँ हूं हो ने और या तो भी ही यह वह ये"
        " वे मैं मैंने हम हमने तुम आप मेरा मेरी मेरे मुझे हमारा हमारी हमारे उस इस"
        " उसका उसकी उसके क्या कौन कब कहाँ कहां क्यों कैसे कितना कितनी कितने किस"
        " किसने कर एक जो कि लिए रहा रही रहे गया गई गए किया किए किये करना करता करती"
        " करते हुआ हुई हुए होता होती होते जाता जाती जाते"
    ),
    "bengali": (
        "আমি আমার আমাদের আমাকে তুমি তোমার সে তার তাকে তারা এই ওই এটা সেটা কি কী কে"
        " কোন কোথায় কখন কবে কেন কত কয় কীভাবে ও এবং আর যে থেকে জন্য সঙ্গে সাথে করে"
        " হয় হয়েছে ছিল আছে এক একটা একটি"
    ),
    "tamil": (
        "நான் என் எனது எங்கள் எனக்கு நாங்கள் நீ நீங்கள் அவர் அவள் அவன் அது இது அந்த இந்த ஒரு என்ன எது யார் எங்கே எப்போது ஏன் எப்படி எத்தனை என்று மற்றும் ஆனால்"
    ),
    "telugu": (
        "నేను నా నాకు మా మేము మాకు నువ్వు మీరు అతను ఆమె అది ఇది ఆ ఈ ఒక ఏమి ఏమిటి ఏ ఎవరు ఎక్కడ ఎప్పుడు ఎందుకు ఎలా ఎంత ఎన్ని మరియు కానీ అని కూడా"
    ),
    "ukrainian": (
        "і й та а але або у в на з із зі до від за по при про для без над під між я"
        " ми ти ви він вона воно вони мене мені мій моя моє мої наш наша наше наші"
        " її його їх цей ця це ці той те ті що хто де коли як чому який яка яке які"
        " скільки чи є був була було були бути ж б би вже ще тільки також нам нас"
        " собі"
    ),
    "vietnamese": (
        "và là của có cho được các những một này đó đây kia ở trong ngoài với để khi"
        " thì mà nên vì nếu tôi chúng gì nào ai đâu bao nhiêu sao thế đã đang sẽ rất"
        " cũng từ đến ra vào lại rồi hay hoặc"
    ),
}
