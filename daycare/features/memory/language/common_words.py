"""Words that people use in every conversation: a sentence made of them says little that is worth keeping."""

from typing import Final

from daycare.features.memory.language.patterns import words

COMMON: Final = words(
    """
    a aber ability able about above accomplish accomplishment achieve achieved achievement across act active actual
    actually add adorable after afternoon again against age ago agree ah ahead ain aint all alle allem almost alone
    along already alright als also although always am amazing among an and another answer any anybody anymore anyone
    anything anyway anywhere apart appreciate appreciated are area aren around arrive as ask asked asking asks at
    attention auch auf aus available aw away awesome awful aww back bad balance basic be beat beautiful became
    because become becoming been before began begin beginning behind bei beim being believe belong beside besides
    best bet better between beyond big bin bis bist bit bitte blast bless blessed blessing bond bonds boost both
    breathtaking brilliant bring bringing brings bro brought buddy busy but by bye call called calming came can
    cannot captivating care careful carry case cause certain certainly challenge challenges chance change changed
    changes changing chat chatted chatting check checked cheer cheering chill clear clearly close come comes
    comforting coming commitment community complete completely concern confidence congrats congratulations connect
    connected connection connections consider continue control cool cope could couldn country couple course crazy
    creative crucial currently cute cutest cuz damn danke dann das dass day days deal dear decide decided dedicated
    dedication deep deeply definitely dein deine delicious dem den denn der des determination determined dich did
    didn die diese dieser differ difference different difficult dir do doch does doesn doing don done doubt down du
    dude due durch during each early easier easily easy effort ein eine einem einen einer eines either else emotions
    empowering encourage encouragement encouraging end ended enjoy enjoyed enjoying enjoys enough enriching entire
    er es escape especially essential etwas euch euer even evening event events ever every everybody everyone
    everything everywhere exact exactly example excellent except excited excitement exciting exist expect expected
    experience experienced experiences explain explore express extra extremely fab face fact fair fall familiar fan
    fantastic far fascinating fast favorite favourite feel feeling feelings feels fell felt few figure find finde
    finding finds fine finish finished first fit focus folks follow following for forever forget forgot forward
    found free fresh friendly from front fulfilling full fun funny further future gain ganz gar gave geht general
    gern gerne get gets getting gibt give given gives giving glad go goal goals god goes going gone gonna good
    gorgeous got gotta gotten grateful great greatest grow growing growth guess gut gute guten guy guys ha habe
    haben had haha half hallo hand hands hang happen happened happening happens happier happiness happy hard hardly
    has hasn hast hat hate hatte hatten have haven having he heads hear heard hearing heart heartwarming held hello
    help helped helpful helping helps her here hers herself heute hey hi hier high highly hilarious hilfe him
    himself his hit hm hmm hold holding hope hoping hot hour hours how however hug huge hugs hyped i ich idea ideas
    if ihm ihn ihr ihre imagine immer impact importance important impress impressed impressive improve in include
    including incredible incredibly indeed inside inspiration inspire inspired inspires inspiring instead interest
    interested interesting interests into involved is isn issue ist it its itself ja jede jetzt job journey joy
    joyful just kann kannst keep keeping keeps kein keine kept key kind kinda kindness kinds klar klingt knew know
    knowing known knows können lack large last late lately later laugh lead learn learned least leave leaving led
    left less lessons let lets letting level life light like liked likely likes line listen listening little live
    lives living ll lol long longer look looked looking looks lose lost lot lots love loved lovely loving luck lucky
    mach machen mad made main make makes making mal man manage many mate matter matters may maybe me mean meaning
    meaningful means meant meet meeting mehr mein meine meinen memorable memories memory mention mentioned
    mentioning mesmerizing mess message met mich might mind mine minute mir miss missed missing mistake mit mix
    moment moments month months more morgen morning most mostly motivate motivated motivates motivating motivation
    move moved moving much muss must my myself nach name named nature near nearby nearly necessary need needed needs
    nein never new news next nice nicht nichts night no nobody noch none nope nor normal not nothing notice now
    number nur obstacle obstacles obviously oder of off offer often oh ohne ok okay old older on once one ones only
    onto open opened opportunities opportunity options or order other others otherwise ought our ours ourselves out
    outside over overall overcome own pal part particular parts pass passed passion passionate passions past peace
    peaceful people perfect perfectly perhaps person personal pic pick picked pics picture pictures piece pieces
    place places plan planned planning plans played please pleased plenty plus point points positive positivity
    possible possibly power powerful prefer present pretty probably problem problems progress proud provide psyched
    pull pumped push pushing put puts putting question questions quick quickly quiet quite rather re reach ready
    real realise realize realized really reason reasons recent recently recharge recommend refreshing reicht
    relatable relax relaxing remember remind reminded reminder reminds resilience respect rest result reward
    rewarding rewards right rock rough sad safe said same satisfying save say saying says scary schon see seeing
    seem seemed seems seen sehr sein seine sense sent serious seriously set setback setbacks several shall share
    shared sharing she short should shouldn show showed showing shows sich side sie sight similar simple simply
    since sind sit sitting situation skill small so soll some somebody someday somehow someone something sometimes
    somewhere soon soothing sorry sort sound sounds speak special spend spending spent spot spread spreading stand
    start started starting starts stay staying step steps stick still stoked stop straight strange strong stronger
    struggle struggles stuff stunning style succeed success successful such suddenly super support supported
    supporting supportive supposed sure surprise surprised sweet tag take taken takes taking talk talked talking
    tasty taught team tell telling tells terrible than thank thankful thanks that the their them themselves then
    therapeutic there these they thing things think thinking third this those though thought thoughts three thrilled
    through throughout time times tiny to today together told tomorrow tonight too took top total totally touch
    touching tough tougher toward towards tried tries truly trust truth try trying turn turned turning turns tut
    twice two type ugh uh um und under understand understanding unforgettable unfortunately unique unless uns unser
    until up uplifting upon upset us use used useful uses using usual usually various ve very vibe vibes viel vielen
    view visit vom von vor wait waiting want wanted wants warum was wasn watch watched watching way ways we week
    weekend weeks weil weird weiß welcome well wenn went wer werde werden were weren what whatever when whenever
    where wherever whether which while who whoever whole whom whose why wicked wie wieder wild will win wir wird
    wirklich wish wishes with within without wollen woman won wonder wonderful wondering word words work worked
    working works world worried worries worry worth worthwhile would wouldn wow wrong würde ya yay yea yeah year
    years yep yes yesterday yet you young younger your yours yourself yourselves yummy yup zum zur zwei über
    """
)
