"""By what a name shows whose it is: titles, relations, verbs and prepositions around it, parts of the name itself."""

import re
from typing import Final, Literal, NamedTuple

from daycare.features.memory.facts.learned import EntityKind
from daycare.features.memory.language.patterns import either, pattern, words

_RELATIVES: Final = either(
    "mother, mom, mum, father, dad, sister, brother, son, daughter, wife, husband, partner, fiancée?, girlfriend",
    "boyfriend, grandma, grandpa, grandmother, grandfather, granny, grandson, granddaughter, aunt, auntie",
    "uncle, cousin",
    "niece, nephew, twin, stepson, stepdaughter, kid, child, baby, ex, ex-(?:wife|husband|boyfriend|girlfriend)",
    "(?:sister|brother|mother|father|son|daughter)-in-law",
)
_ACQUAINTED: Final = either(
    "friend, bestie, buddy, mate, pal, colleague, co-?worker, boss, manager, teacher, professor, tutor, coach, trainer",
    "mentor, doctor, dentist, therapist, nurse, lawyer, accountant, landlord, landlady, neighbou?r, roommate, flatmate",
    "housemate, team lead, assistant, secretary, hairdresser, barber, plumber, gardener, babysitter, nanny, classmate",
    "teammate, student, client, vet, author, singer, actor, actress, artist, player, director, guide, guy, girl, man",
    "woman, lady, crush, bride, groom, intern, supervisor, host, instructor, physiotherapist, electrician, carpenter",
    "midwife, pediatrician, surgeon, agent, captain, chef, waiter, waitress",
)
_VERWANDT: Final = either(
    "mutter, mama, vater, papa, schwester, bruder, sohn, tochter, frau, mann, ehefrau, ehemann, partnerin, freundin",
    "freund, oma, opa, tante, onkel, cousine, cousin, nichte, neffe, enkel, enkelin, schwager, schwägerin, kollegin",
    "kollege, schwiegermutter, schwiegervater, chefin, chef, lehrerin, lehrer, ärztin, arzt, zahnärztin",
    "zahnarzt, kind",
    "nachbarin, nachbar, mitbewohnerin, mitbewohner, vermieterin, vermieter, trainerin, trainer, friseurin, friseur",
    "baby, verlobte[rn]?, kumpel, hausarzt, hausärztin",
)
RELATION: Final = f"(?:{_RELATIVES}|{_ACQUAINTED}|{_VERWANDT})"
"""What a person is to another, as a pattern without groups that catch."""
PET: Final = either(
    "dog, cat, puppy, pup, kitten, hamster, rabbit, bunny, goldfish, fish, parrot, horse, pony, turtle, tortoise",
    "guinea pig, pet, budgie, bird, snake, lizard, gecko, hund, katze, kater, kaninchen, pferd, vogel",
    "schildkröte, welpe",
)
TITLE: Final = either(
    r"(?:Dr|Mr|Mrs|Ms|Prof)\.?, Miss, Professor, Doctor, Uncle, Aunt, Auntie, Grandma, Grandpa, Sir, Captain, Coach",
    "Father, Sister, Herrn?, Frau, Onkel, Tante, Oma, Opa",
)
_CLOSE: Final = either(
    "little, big, older, younger, old, eldest, oldest, youngest, best, dear, good, new, twin, kleine, kleiner, große",
    "großer, beste, bester, alte, alter, ältere, älterer, jüngere, jüngerer",
)
RELATIVE_OF: Final = pattern(  # the speaker's own: whose "his sister" is does not show
    rf"\b(?:my|our|meine[rnm]?|mein|unsere?r?)\s+(?:{_CLOSE}\s+)?(?P<what>{RELATION}|{PET}),?\s+"
    r"(?:is\s+)?(?:named\s+|called\s+)?$"
)
A_RELATION: Final = pattern(rf"{RELATION}s?$")

NO_NAMES: Final = words(
    "i monday tuesday wednesday thursday friday saturday sunday january february march april may june july august",
    "september october november december christmas easter halloween thanksgiving ramadan english german french spanish",
    "italian portuguese arabic chinese japanese korean russian turkish polish dutch swedish danish norwegian greek",
    "scottish irish british american canadian australian indian mexican european african asian latin hebrew hindi thai",
    "vietnamese catholic christian muslim jewish buddhist hindu lgbtq lgbt tv pc ok dvd cd diy ai it faq pdf usb wifi",
    "covid phd mba gps sms id ceo cto hr pr dj bbq rpg nba nfl ps xp am pm room let mom mum dad grandma grandpa",
    "mama papa",
    "oma opa god lord jesus bro dude guys valentine year eve internet web mr mrs ms dr prof sir miss okay hi hey",
    "montag",
    "dienstag mittwoch donnerstag freitag samstag sonntag januar februar märz mai juni juli oktober dezember",
    "weihnachten",
    "ostern silvester ich du er sie es wir ihr",
)
"""Words with a capital that name nobody."""
CALENDAR: Final = pattern(
    "(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|june|july|august|september|october|november"
    "|december|christmas|easter|(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch|januar|februar|märz|juni|juli|oktober|dezember)"
    "(?:'s)?$"
)
AMBIGUOUS: Final = words(
    "will mark may rose joy grace bill jack frank dawn june april chase hunter mason said nice split bath cork turkey",
    "china chad guy rob sue pat art ray dean earl penny ruby amber iris daisy lily violet olive holly sandy dale",
    "rich miles",
    "nick wade victor christian faith hope melody jade robin jay martin summer autumn winter heather brook kent devon",
    "reading hai ana ran ron see sun rain lin lee hui jin jun jo ted les don ken al ed ute uli per kit mel nell",
    "essen halle",
    "kiel ulm rom bern queens york palma linz trier chile mali niger niece oman cuba lima riga nara fez glen",
    "norm gene herb",
    "dick van till kind gran canaria vegas georgia jordan charity ebony blake cole eli pia ida ada",
)
"""Names that are names with a capital only, and hardly at the beginning of a sentence."""
CONTRACTION: Final = re.compile(r"'(?:ve|re|ll|d|m|t|all)$|^(?:let|that|it|there|here|what|who|how|year|valentine)'s$")

_PLACE_PART: Final = re.compile(
    r"\b"
    + either(
        "Street, St, Road, Avenue, Ave, Lane, Boulevard, Square, Park, Lake, Mount, Mt, Mountains?, River",
        "Bridge, Beach",
        "Bay, Coast, Hospital, Clinic, Hotel, Hostel, Inn, Museum, Gallery, Airport, Station, Stadium, Arena",
        "Theat(?:re|er)",
        "Gardens?, Isle, Islands?, Valley, Canyon, Falls, Castle, Palace, Cathedral, Church, Temple, Mosque",
        "Abbey, Caf[eé]",
        "Restaurant, Trattoria, Pizzeria, Bistro, Bar, Pub, Bakery, Library, Mall, Market, Cent(?:er|re), City, Town",
        "Village, County, Heath, Hills?, Woods?, Forest, Desert, Ocean, Sea, Canal, Port, Harbou?r, House, Hall",
        "Tower, Trail",
        "Springs, Zealand, Lanka, Cape, San, Santa, Los, Las, Saint, Costa, El, Puerto, Rio, Hawaii",
        r"\w+(?:straße|strasse|platz|brücke|bahnhof|kirche|berg|see|allee|gasse|tal|schloss)",
    )
    + r"\b"
)
ORGANISATION: Final = re.compile(
    r"\b"
    + either(
        "Corp, Inc, Ltd, LLC, GmbH, AG, KG, Company, Group, Bank, Foundation, Institute, University, College, School",
        "Academy, Association, Club, Team, Orchestra, Choir, Society, Agency, Studios?, Records, Airlines, Insurance",
        "Universität, Hochschule, Schule, Verein, ETH, MIT",
    )
    + r"\b"
)
_NOUN_END: Final = re.compile(
    r"(?:(?:ful|al|ed|ent)ly|ing|ness|tion|ment|ance|ung|heit|keit|schaft|tät|ismus|nis|chen|lein)$", re.IGNORECASE
)
_GERMAN_NOUNS: Final = words(
    "urlaub hause haus rente ruhe versehen ordnung bedarf arbeit schule uni stadion büro kino park stadt land",
    "bett kirche",
    "wirklichkeit zukunft deutsch englisch besuch zug auto garten küche liebe holz spaß angst wut not freude",
    "frage sicht",
    "regel summe praxis theorie zeit woche monat jahr tag stunde form art weise",
)
NO_GERMAN_NAME: Final = pattern(
    rf"(?:{RELATION}|(?:mein|dein|sein|ihr|unser|ein|kein)(?:e[mnrs]?)?|der|die|das|den|dem|am|im|in|auf|bei|mit|nach|von"
    r"|vor|wir|letzt\w+|nächst\w+)$"
)


class Sign(NamedTuple):
    """What speaks for a kind: a pattern of the text `before` or `after` a name, or of the `name`."""

    kind: EntityKind
    points: float
    where: Literal["before", "after", "name"]
    pattern: re.Pattern[str]


def _before(text: str, then: str = r"\s+$") -> re.Pattern[str]:
    return pattern(rf"\b{text}{then}")


_CONVERSE: Final = either(
    "talk(?:ed|ing)? to, spoke (?:to|with), speak(?:ing)? (?:to|with), paid back",
    "met, meet, meeting, call, called, calling, ask, asked, asking, tell, told, telling, text, texted, thank, thanked",
    "marry, married, miss, hug, invited?, inviting, remind, helped, helping, wrote to, listen to, ran into",
    "bumped into",
    r"with, by, and, (?:sold|gave|lent|showed) \w+ (?:\w+ )?to, crush on, dating, birthday (?:to|of)",
    r"wedding of, adore",
    r"pick(?:ed|ing)? up, congrats to, congratulations to, thanks to, hello to, kissed, kiss, taught, treffe",
    r"triff, getroffen",
    "besuche, fragt?e",
    "danke, rufe, mit, told me that, known, because, that, whether, if, think, hope, guess, believe, says",
)
_TOWARDS: Final = either(
    "of, for, about, from, like, loves?, dislike, hate, to, than, without, besides, know, see, seeing, raised",
    "teach, visited my",
    "bei, von, hat, dear, liebe[rs]?, help",
)
_THEIRS: Final = either(
    "wife, husband, son, daughter, mother, father, sister, brother, wedding, birthday, house, place, friend",
    "parents, kids, dog",
    "cat, recipe, idea, car, party, family, teacher, boss",
)
_MIND: Final = either(
    r"and \w+ (?:are|were|got|have|moved|went|came)",
    r"(?:would|will|might|should) (?:\w+ )?(?:like|love|be|come|bring|help|join)",
    "said, says, told, tells, asked, asks, thinks, thought, loves, loved, likes, liked, hates, hated, prefers",
    "wants, wanted",
    "knows, knew, called, broke (?:her|his), quit, proposed, lent, cooked, bought, married, retired, teaches, taught",
    "wrote, writes",
    "sings, sang, scored, invited, moved, turned, passed away, died, studies, studied, lives, lived, showed, gave me",
    "left, flew, arrived, phoned, rang, emailed",
    "is (?:coming|visiting|bringing|moving|flying|allergic|pregnant|looking|from)",
)
_ACT: Final = either(
    "works?, worked, plays, played, calls, broke, lost, gave, turns, helped, just had, just got, will bring",
    "got, was there",
    rf"is (?:getting|a|an|the|watering|(?:my|our) {RELATION}), was (?:very )?kind, has, had",
    "runs, repairs, starts, started, came, comes, brought, fell, feels?, hat, ist, spielt, wohnt, kommt, sagt",
    "arbeitet, mag",
    "liebt",
)
_TRAVEL: Final = either(
    "off, flight, trip, ticket, train, bus, drive, drove, fly, flew, flying, go, going, went, gone, move, moved",
    "moving, back, been",
    r"travel\w*, come, came, coming, relocat\w+, return\w*, way, welcome, invited, take, took, hiked up",
    r"climbed, climb, pick(?:ed|ing)? up",
)
_WITHIN: Final = either(
    "in, near, around, outside, across, throughout, inside, visit(?:ed|ing)?, towards?, leave for, left for",
    "leaving for",
    rf"{_TRAVEL}(?: \w+){{0,3}} (?:to|from), hiked(?: up)?, climbed, live in, lives in, lived in, explor\w+",
    r"arriv\w+ (?:in|from|at), city of",
    "(?:is|are|am|'m|was|were|comes?|developer|he|she|family|home|based|photos) from, country of, village near",
    "capital of",
    "along, nach, aus, in der nähe von, tour of",
)
_SITE: Final = either(
    "restaurant, caf[eé], bar, pub, hotel, city, town, village, country, beach, park, lake, island, mountain",
    "place, hometown",
    "museum, neighbou?rhood, street, region, spot",
)
_WORKS: Final = either(
    r"re-?read\w*, read(?:ing)?, watch(?:ed|ing|es)?, copy of, book, novel, film, movie, series, show, game",
    r"album, song",
    r"band(?: called)?, play(?:ed|ing|s)?, called, tickets? (?:for|to), listen(?:ed|ing)? to, fans? of",
    r"drive an?(?: \w+)?, use",
    r"using, used, bought an?(?: \w+)?, old, brand, app, an?, hired by, lese, gelesen, saw, seen",
)
_WORK: Final = either(
    "film, movie, book, novel, band, game, series, show, song, album, podcast, app, brand, car, team, buch",
    "lied, spiel",
    r"lieblings(?:film|buch|band|lied|spiel|serie|verein)",
)
_EMPLOYED: Final = either(
    r"work(?:s|ed|ing)? (?:at|for|with), job (?:at|with), offer from, invoice from, bill from, joined",
    r"position (?:at|with), interview (?:at|with)",
    r"pilot for, contract with",
    r"intern(?:ship)? (?:at|with), sponsor\w* (?:by|with|from), deal with, stud(?:y|ied|ying)(?: \w+){0,2} at",
    r"teacher at",
    r"professor at, graduated from, degree from, donated?(?: [\w ]{1,20})? to, arbeite bei, arbeitet bei",
    r"job bei, studiere an",
)
_ADDRESSING: Final = either(
    "thanks, thank you, sorry, hi, hey, hello, bye, see you, good \\w+, congrats, well done, danke"
)
_DOES: Final = rf"|,? who\b|'ll\b|\s+and I\b|\s+{_MIND}\b"
_IS_CALLED: Final = r"(?:'s name)?(?:\s+(?:is|are|was|were|ist|sind|heißt|heißen))?(?:\s+(?:named|called|namens))?"
_SELF: Final = either("I'm, I am, calls? me, my name is, mein name ist, ich bin, ich heiße, this is")
_THE: Final = r"\s+(?:the )?$"

SIGNS: Final = (
    Sign("person", 3.0, "before", _before(f"{RELATION}s?{_IS_CALLED},?", r"\s+(?:a certain\s+)?$")),
    Sign("person", 1.4, "before", _before(_SELF)),
    Sign("person", 3.0, "before", _before(rf"{RELATION} (?:from|at|of|in) \w+(?: \w+)?,")),
    Sign("person", 2.2, "before", _before(r"favou?rite \w+(?:er|or|ist|ian|man|woman) (?:is|was)")),
    Sign("person", 3.0, "after", pattern(rf", (?:my|our|his|her|their|meine?|unsere?) (?:\w+ )?{RELATION}\b")),
    Sign("person", 1.4, "before", _before(_CONVERSE)),
    Sign("person", 0.7, "before", _before(_TOWARDS)),
    Sign("person", 1.6, "before", pattern(rf"^{_ADDRESSING}\b.*,\s+$")),  # "Thanks for listening, Yusra."
    Sign("person", 1.6, "after", pattern(rf"'s\s+(?:\w+\s+)?{_THEIRS}\b{_DOES}|\s+{_ACT}\b")),
    Sign("place", 2.2, "before", _before(rf"{_SITE}s?(?: on earth| in \w+)?,?{_IS_CALLED}", _THE)),
    Sign("place", 2.2, "before", _before(_WITHIN, _THE)),
    Sign("place", 0.8, "before", _before(rf"{_TRAVEL} to", _THE)),
    Sign("place", 1.0, "before", _before("(?:at|behind|from|to)", _THE)),
    Sign("place", 1.0, "before", _before("at", _THE)),
    Sign("place", 0.5, "after", re.compile(r",? (?:in|near) [A-Z]")),
    Sign("place", -0.5, "name", ORGANISATION),
    Sign("thing", 2.0, "name", ORGANISATION),
    Sign("thing", 2.1, "before", _before(_WORKS, _THE)),
    Sign("thing", 2.2, "before", _before(rf"{_WORK}s?(?:\s+is|\s+was|\s+ist)(?:\s+now|\s+still|\s+jetzt)?")),
    Sign("thing", 3.6, "before", _before(_EMPLOYED, _THE)),
    Sign("thing", 2.0, "before", re.compile(r"\b(?:19|20)\d\d\s+$")),  # a 2012 Volvo
    Sign("thing", 2.0, "before", _before(r"nam(?:e|ed) (?:the|our|my|his|her) \w+")),
    Sign("thing", 1.0, "before", _before(either("named?, called, name is, name's, name was, heißt, namens"))),
)  # fmt: skip
RELATION_BEFORE: Final = _before(rf"(?:my|our|his|her|meine?|unsere?) {RELATION}")
VERBAL: Final = pattern(
    r"(?:s|ed|ing|hat|ist|mag|wohnt|(?<=\w{3})t)$"
    r"|^(?:is|was|has|had|and|who|just|will|would|can|told|made|got|went|in|at|und)$"
)
PET_BEFORE: Final = _before(rf"{PET}s?(?:'s name)?(?:\s+(?:is|ist))?(?:\s+(?:named|called|namens|heißt))?,?")
PET_AFTER: Final = pattern(
    rf", (?:my|our|his|her|their|meine?|unsere?) (?:\w+ )?{PET}\b"
    rf"|(?: and \w+)? (?:is|are) (?:my|our)(?: \w+)? {PET}s?\b"
)
SAYS: Final = pattern(rf"'s {_THEIRS}\b{_DOES}")
_HELLO: Final = either(
    "hi, hey, hello, hallo, dear, thanks, thank you, liebe[rs]?, wow, yeah, oh, yes, no, sure, congrats, great, sorry",
)
GREETING: Final = pattern(rf"^{_HELLO}?,?\s*$")


def is_place(name: str) -> bool:
    """Tell whether a part of a name belongs to places."""
    return bool(_PLACE_PART.search(name))


def is_noun(word: str) -> bool:
    """Tell whether a word with a capital is an ordinary noun, as far as that shows."""
    return bool(_NOUN_END.search(word)) or word.lower() in _GERMAN_NOUNS
