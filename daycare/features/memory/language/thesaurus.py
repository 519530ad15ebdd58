"""English words for the same: forms that a stemmer does not join, everyday words of like meaning, and what is a pet.

It stands in for an embedder where there is none, and helps where there is one. People ask for "pets" and had said
"puppy"; a list of what everyday conversations are about finds more of that than it costs.
"""

from collections.abc import Iterator
from typing import Final

_FORMS: Final = """
    be: am is are was were been; begin: began begun; bear: born birth; become: became; bite: bit bitten; bleed: bled;
    blow: blew blown; break: broke broken; breed: bred; bring: brought; build: built; burn: burnt; buy: bought; catch:
    caught; choose: chose chosen choice; come: came; cost: costs; creep: crept; deal: dealt; die: died death dead;
    dig: dug; do: did done; draw: drew drawn; dream: dreamt; drink: drank drunk; drive: drove driven; eat: ate eaten;
    fall: fell fallen; feed: fed; feel: felt; fight: fought; find: found; fly: flew flown flight; forget: forgot
    forgotten; forgive: forgave; freeze: froze frozen; get: got gotten; give: gave given gift; go: went gone; grow:
    grew grown growth; hang: hung; hear: heard; hide: hid hidden; hold: held; keep: kept; know: knew known; lay: laid;
    lead: led; learn: learnt; leave: left; lend: lent; lie: lying; lose: lost loss; make: made; mean: meant; meet:
    met; pay: paid; read: reading; ride: rode ridden; ring: rang rung; rise: rose risen; run: ran; see: saw seen;
    seek: sought; sell: sold; send: sent; sew: sewn; shake: shook; shine: shone; shoot: shot; show: shown; shrink:
    shrank; sing: sang sung song; sink: sank; sit: sat; sleep: slept; slide: slid; speak: spoke spoken speech; spend:
    spent; spill: spilt; spin: spun; stand: stood; steal: stole stolen; stick: stuck; sting: stung; strike: struck;
    swear: swore; sweep: swept; swim: swam swum; swing: swung; take: took taken; teach: taught; tear: tore torn;
    think: thought; throw: threw thrown; understand: understood; wake: woke woken; wear: wore worn; weave: wove; win:
    won; wind: wound; write: wrote written; child: children kid kids; person: people; man: men; woman: women; wife:
    wives; life: lives; foot: feet; tooth: teeth; mouse: mice; goose: geese; knife: knives; leaf: leaves; shelf:
    shelves; half: halves; wolf: wolves; loaf: loaves; mother: mom mum mommy mummy mama; father: dad daddy papa;
    grandmother: grandma granny nana; grandfather: grandpa granddad; photo: photograph pic picture; bicycle: bike;
    telephone: phone; television: tv; refrigerator: fridge; mathematics: math maths; favorite: favourite; color:
    colour; neighbor: neighbour; neighborhood: neighbourhood; theater: theatre; center: centre; traveling: travelling;
    organize: organise; apologize: apologise; realize: realise; gray: grey; program: programme; veterinarian: vet;
    examination: exam; laboratory: lab; information: info; doctor: doc dr; advertisement: ad advert
"""

_ALIKE: Final = """
    parent mother father; sibling brother sister; son boy child; daughter girl child; spouse husband wife partner;
    girlfriend partner; boyfriend partner; friend buddy pal mate; colleague coworker; boss manager supervisor; marry
    wedding husband wife bride groom; marriage wedding married; engaged engagement fiance fiancee proposal; divorce
    separated; baby newborn infant toddler; pregnant pregnancy expecting; adopt adoption; picture image photograph
    snapshot painting; movie film cinema; show series episode; book novel; author writer; song music tune track;
    concert gig festival; job work career occupation profession; company firm business employer; hire recruit; fired
    dismissed; salary pay wage; promotion promoted; retire retirement pension; meeting appointment; car vehicle
    automobile; house home; apartment flat; room bedroom; street road address; city town; village town; country
    nation; abroad overseas; move relocate; live reside home; neighborhood area community; buy purchase order shop;
    store shop supermarket; price cost expensive cheap; money cash budget; gift present; big large huge; small little
    tiny; old ancient; new recent; happy glad joy excited; sad unhappy upset depressed; angry mad furious; scared
    afraid fear frightened; nervous anxious worried; tired exhausted sleepy; proud pride; stress stressed pressure
    anxiety; relax unwind calm rest destress; difficult hard tough; challenge obstacle difficulty; problem issue
    trouble; advice tip suggestion recommend; help assist support; idea thought plan; goal aim dream; intend plan;
    decide decision chose; begin start; finish complete end; stop quit; try attempt; succeed success achieve;
    achievement accomplishment success award; award prize medal trophy; win victory; lose defeat; practice train
    rehearse; sick ill unwell; illness disease sickness; doctor physician hospital; hospital clinic; medicine
    medication pill drug; hurt injured pain; injury injured wound; allergy allergic; surgery operation; health healthy
    fitness; exercise workout gym training; diet nutrition eating; weight pounds kilos; sleep nap insomnia; therapy
    counseling therapist; vacation holiday trip getaway; trip travel journey visit; travel trip flight; hotel hostel
    resort; hike hiking trail; camp camping tent; beach seaside ocean; sea ocean; forest woods; mountain peak;
    outdoors nature outside; study learn class; course class lesson workshop; class lesson; school college university;
    degree diploma graduate; teacher instructor professor tutor; coach trainer; student pupil; exam test; education
    school studies; hobby pastime interest; activity hobby; enjoy like love; like love favorite; dislike hate; prefer
    favorite rather; party celebration; celebrate party anniversary; event celebration ceremony; birthday anniversary;
    festival fair parade; game match; match tournament game; tournament competition championship; competition contest
    tournament; team squad club; volunteer charity nonprofit; charity donate fundraiser donation; donate donation
    gave; organization group association; protest rally march demonstration; church faith; religion religious faith;
    religious church faith god; pray prayer; cook bake recipe; recipe dish ingredients; dish meal; dinner supper meal;
    breakfast meal; lunch meal; dessert sweet cake; restaurant cafe diner; snack food; beverage drink; grocery
    supermarket groceries; kitchen cooking; computer laptop pc; code programming software; app application; website
    site online; internet online wifi; email mail; password login; error bug failure; fix repair; broken broke
    damaged; accident crash; storm hurricane flood; die passed funeral; garden yard; plant flower seeds; flower rose
    tulip bouquet; clothes outfit clothing; bag backpack; collect collection; create make; art painting drawing; paint
    painting; draw drawing sketch; instrument guitar piano; beautiful gorgeous pretty; funny hilarious; scary
    frightening; delicious tasty yummy; famous celebrity; important significant; dentist teeth; haircut hairdresser;
    bill invoice; contract agreement; flight plane airport; train railway; bus coach; license permit; passport visa;
    insurance policy; rent lease landlord; mortgage loan; package parcel delivery
"""

_MEMBERS: Final = """
    pet: dog cat puppy kitten hamster rabbit parrot; dog: puppy pup; cat: kitten; animal: dog cat bird horse; family:
    mother father brother sister son daughter parent; relative: aunt uncle cousin grandmother grandfather; sport:
    soccer football basketball tennis baseball hockey golf swimming running volleyball surfing skiing climbing;
    exercise: yoga running swimming cycling jogging pilates; instrument: guitar piano violin drum flute clarinet cello
    trumpet; hobby: painting photography gardening reading cooking hiking knitting dancing; musician: singer guitarist
    band; artist: painter sculptor; art: sculpture pottery; craft: pottery knitting sewing; genre: fantasy thriller
    mystery; food: pizza pasta cheese chicken salad soup bread rice sushi; dessert: cake cookie pie chocolate; fruit:
    apple banana orange strawberry; vegetable: carrot tomato potato spinach; drink: coffee tea beer wine juice soda;
    vehicle: car truck motorcycle van; transport: car bus train plane; season: spring summer autumn winter; weather:
    rain snow sunny storm; furniture: chair table sofa couch bed; jewelry: necklace ring bracelet; clothes: shirt
    dress shoes jacket; device: phone laptop tablet; emotion: happy sad angry proud; subject: math history science
    english; degree: bachelor master phd; disease: cancer diabetes; allergy: peanut pollen gluten; landscape: mountain
    lake sunset beach; place: beach park museum city; state: california texas florida oregon; country: italy france
    spain germany england canada mexico japan; city: paris london
"""

_KIN_MAX: Final = 12  # of one word: each is looked for, and the last ones are far from it


def _groups(text: str) -> Iterator[tuple[str, list[str]]]:
    for part in text.split(";"):
        head, _, others = part.partition(":")
        yield head.strip(), others.split()


def _forms() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for head, others in _groups(_FORMS):
        every = (head, *others)
        found |= {word: tuple(other for other in every if other != word) for word in every}
    return found


def _kin() -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for head, members in _groups(_MEMBERS):
        found.setdefault(head, {}).update(dict.fromkeys(members))
    for group in _ALIKE.split(";"):
        head, *others = group.split()
        found.setdefault(head, {}).update(dict.fromkeys(others))
        for other in others:
            found.setdefault(other, {})[head] = None
    return {word: tuple(others)[:_KIN_MAX] for word, others in found.items()}


_FORMS_OF: Final = _forms()
_KIN_OF: Final = _kin()


def meant(word: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return other forms of a lower-case word that a stemmer does not join with it, and words that may be meant by it.

    "went" has the forms "go" and "gone", "pets" are of a kind with "dog" and "cat".
    """
    bases = _bases(word)
    base = next((each for each in bases if each in _FORMS_OF), None)
    forms = () if base is None else tuple([each for each in (base, *_FORMS_OF[base]) if each != word])
    found: dict[str, None] = {}
    for each in (*bases, *forms):
        if each in _KIN_OF:
            found.update(dict.fromkeys(_KIN_OF[each]))
    return forms, tuple(found)[:_KIN_MAX]


def _bases(word: str) -> list[str]:
    """Return a word and what it may be an inflection of, the likeliest first."""
    if word[-1:] not in "sdg":
        return [word]
    found = [word]
    for ending, others in (
        ("ies", "y"),
        ("ied", "y"),
        ("es", " e"),
        ("s", " "),
        ("ing", " e"),
        ("ed", " e"),
        ("d", " "),
    ):
        if word.endswith(ending) and len(word) - len(ending) > 1:
            stem = word.removesuffix(ending)
            found += [stem + other.strip() for other in others]
            if ending in ("ing", "ed") and stem[-1] == stem[-2]:
                found.append(stem[:-1])  # planned, running
    return found
