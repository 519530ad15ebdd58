"""Words that say nothing of what a question is about: those of grammar, and those of asking itself, by language."""

from typing import Final

from daycare.features.memory.language.patterns import words

_PARTS: Final = words(  # of words with an apostrophe
    "c d j l ll m n qu re s t ve aren couldn didn doesn don hadn hasn haven isn wasn weren won wouldn"
)

_BY_LANGUAGE: Final = {
    "en": words(
        """
        a about above after again against all am an and any are as at be because been before being below between both
        but by can cannot could did do does doing down during each else ever few for from further had has have having
        he her here hers herself him himself his how i if in into is it its itself just let may me might more most
        must my myself no nor not now of off oh ok okay on once only or other our ours ourselves out over own please
        shall she should since so some such than that the their theirs them themselves then there these they this
        those through to too under until up upon us very was we were what whatever when where which while who whom
        whose why will with would yes you your yours yourself yourselves
        """,
        """
        according also ask asked asking asks conversation consider considered describe described describes discuss
        discussed explain explained kind kinds know known knows likely many mention mentioned mentions much name named
        names recall remember said same say saying says share shared someone something sort sorts talk talked talking
        tell telling tells thing things think thinks time times told type types
        """,
    ),
    "de": words(
        """
        aber alle allem allen aller alles als also am an ander andere anderen auch auf aus bei beim bin bis bist da
        damit dann das dass dein deine deinem deinen deiner dem den denn der des dich die dies diese diesem diesen
        dieser dieses dir doch dort du durch ein eine einem einen einer eines er es etwas euch euer für gegen gewesen
        hab habe haben hast hat hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in ins
        ist ja jede jedem jeden jeder jedes jene kann kannst kein keine keinem keinen können könnte mal man mein meine
        meinem meinen meiner mich mir mit muss musst müssen nach nein nicht nichts noch nun nur ob oder ohne schon
        sehr sein seine seinem seinen seiner seit sich sie sind so soll sollte sonst über um und uns unser unsere
        unter vom von vor war waren warst warum was weil weiter welche welchem welchen welcher welches wem wen wenn
        wer werde werden weshalb wessen wie wieder wieso will wir wird wirst wo wohin woher wollte während würde
        würden zu zum zur zwischen bitte wann
        """,
        """
        art erinnern erinnerst erwähnt erzähl erzähle erzählen erzählt frage fragen gefragt gesagt geredet gesprochen
        heißt ding dinge sag sage sagen sagt sagte sorte viel viele weiß weißt wissen zeit
        """,
    ),
    "fr": words(
        """
        à ai aie ait alors as au aucun aussi autre autres aux avait avec avez avoir avons ça car ce cela ces cet cette
        ceux chez ci comme comment d dans de des donc dont du elle elles en encore es est et étaient était été être eu
        fait faut furent il ils je la là laquelle le lequel les leur leurs lui ma mais me même mes moi mon ne ni non
        nos notre nous on ont ou où par pas peu peut plus pour pourquoi quand que quel quelle quelles quels qui quoi
        sa sans se sera ses si sien son sont sous suis sur ta te tes toi ton tous tout toute toutes tu un une va vos
        votre vous y
        """,
        """
        appelle chose choses combien demandé dire dis disais dit genre mentionné parlé raconté rappelle rappelles sais
        sait sorte souviens temps type
        """,
    ),
    "es": words(
        """
        a al algo algún alguna algunas alguno algunos ante antes aquel aquella así aún aunque cada como cómo con
        contra cuál cuáles cuando cuándo cuanto cuánto cuántos de del desde donde dónde dos el él ella ellas ellos en
        entre era eran eres es esa esas ese eso esos esta está están estaba estado estas este esto estos estoy fue
        fueron ha había han has hasta hay he la las le les lo los más me mi mí mis mucho muy nada ni no nos nosotros
        nuestra nuestro o os otra otro para pero por porque pues que qué quién quiénes se ser si sí sido sin sobre
        solo son soy su sus también tan te tengo ti tiene tienes todo todos tu tú tus un una unas uno unos usted
        ustedes y ya yo
        """,
        """
        acuerdas contado cosa cosas dice dices dicho dije dijiste dijo hablado llama mencionado mencionó preguntado
        recuerdas sabe sabes tiempo tipo vez veces
        """,
    ),
    "it": words(
        """
        a ad agli ai al alla alle allo anche avere aveva c che chi ci come con cosa così cui da dai dal dalla dalle
        degli dei del della delle dello di dove e è ed era erano essere fra gli ha hai hanno ho i il in io l la le lei
        li lo loro lui ma me mi mia mie miei mio ne nei nel nella no noi non nostro o per perché più qual quale quali
        quando quanto quella quello questa questo qui se sei si sia siamo sono sta su sua sue sugli sul sulla suo suoi
        ti tra tu tua tue tuo tuoi un una uno vi voi
        """,
        "chiama cose detto dice dici dire menzionato parlato raccontato ricordi sai tempo tipo volta volte",
    ),
    "pt": words(
        """
        a ao aos as até com como da das de dela dele deles do dos e é ela elas ele eles em entre era eram essa esse
        esta está estava este eu foi foram há isso isto já lhe mais mas me meu meus minha minhas muito na não nas nem
        no nos nós o onde os ou para pela pelo por porque qual quais quando quanto que quê quem se sem ser seu seus só
        sua suas também te tem tenho teu teus tua tuas um uma umas uns você vocês
        """,
        "chama coisa coisas contou disse dizer falado falou lembra lembras mencionou sabe tempo tipo vez vezes",
    ),
    "nl": words(
        """
        aan al alles als altijd andere ben bij daar dan dat de der deze die dit doen door dus een en er ge geen had
        heb hebben heeft hem het hier hij hoe hun ik in is ja je jij jou jouw kan kon kunnen maar me men met mij mijn
        moet na naar niet niets nog nu of om omdat ons onze ook op over te tegen toch toen tot u uit uw van veel voor
        waar waarom wanneer want waren was wat we wel welk welke werd wie wij wil worden wordt ze zei zelf zich zij
        zijn zo zonder zou
        """,
        "ding dingen gezegd heet herinner noem praten soort tijd vertel vertelde weet zeg zegt",
    ),
}

STOP_WORDS: Final = {language: _PARTS | found for language, found in _BY_LANGUAGE.items()}
"""By language, those of grammar and those of asking."""

EVERY_STOP_WORD: Final = STOP_WORDS["en"] | STOP_WORDS["de"] | STOP_WORDS["fr"] | STOP_WORDS["es"]
