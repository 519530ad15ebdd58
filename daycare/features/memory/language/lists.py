"""Lists: given names and places that most people know, and the words that stand in any text.

A name in no list is still found by what stands around it.
"""

from typing import Final

from daycare.features.memory.language.patterns import words

GIVEN: Final = words(
    """
    aarav aaron abdul abdullah abena abigail abla achieng adaeze adam adebayo adele aditya adrian adriana agnes
    agnieszka agus ahmed aicha aiden ainhoa aino aisha akira aksel alan albert alejandra alejandro alejo aleksandra
    alessandra alessandro alex alexander alexandra alexis alfred ali alice alicia alina alison allison alma alvaro
    ama amadou amanda amara amber amelia amina aminata amir amit amy ana anais ananya anastasia anders andras andre
    andrea andreas andres andrew andrzej andré andy ane angela angelica angelo angie anika anil anita anja anjali
    anna anne annegret anneliese annette annie anthony anton antonia antonio anya aoi aoife april arash ari ariana
    arjun armando arthur arturo asger asha asher ashley astrid attila audrey aung aurora austin ava ayesha ayse
    bahar bao barbara bart beatrice beatriz becky belinda ben benedict benjamin bernard bernd bert beth betty bianca
    bill billy birgit bjorn björn blake blanca bob bobby bogdan bojan boris brad bram brandon brayden brenda brian
    bridget britta bronwyn brooke bruce bruno bryan budi caleb callum calvin camila camilla camille candice carina
    carl carla carlos carmen carol carolina caroline carsten carys cassandra catalina catherine cecilia celia celine
    cem chad charles charlie charlotte chase chau chen chiara chidi chinedu chioma chloe chloé chris christa
    christian christina christine christopher chuck ciaran cindy claire clara clarissa claude claudia claus clemens
    cody cole colin connor conrad consuelo cora corinna craig cristina curtis cynthia cyrus daan daisy dale damian
    dan dana daniel daniela daniele danielle danny daphne dario darius darren dave david dawn dean debbie deborah
    deepak delphine denis denise deniz dennis derek derrick deshawn desta dewi diana diane diego dieter dimitri
    dimitris dina dinesh dirk divya dmitri dolores dominic dominik donald donna dora doris dorothea dorothy doug
    douglas dragan duarte duc duncan dustin dylan earl ebony ece ed eddie edeltraud edgar edith edmund eduardo
    edward edwin eero eileen ekaterina elaine eleanor eleftheria elena eleni eli elif elijah elio elisa elisabeth
    elise eliza elizabeth ella ellen ellie elliot elsa elvira emeka emil emilia emiliano emilio emily emma emmanuel
    emre enno enrico enrique eoin eric erica erich erik erika erin ernest ernesto ernst esi esperanza esteban esther
    eszter ethan eugene eva evan eve evelyn ezra fabian fabio farid fatima fatma fatou federico felicia felicity
    felipe felix femke ferdinand fernanda fernando finn fiona fiorella flora florence florian folake frances
    francesca francesco francis francisco francois frank franz fred freddie frederic frederick freja freya frida
    frieda friederike friedrich fritz fynn gabor gabriel gabriela gabriele gabrielle gaetano gareth gary gavin geert
    gemma geoff geoffrey georg george georgia georgina gerald gerard gerd gerhard gertrude gianni gilbert gina
    giorgio giovanna giovanni gisela giulia giulio giuseppe glen glenn gloria golnaz gordon grace graham grayson
    greg gregor gregory greta gudrun guido guillermo gunnar gunther gurpreet gustav gustavo guy gwen gwyneth günter
    haeun hai hailey hakan halvor hamid hamish hana hanna hannah hanneke hannes hans harald harold harpreet harriet
    harry haruto harvey hassan hauke heather hector heidi heike heinrich heinz heinz-peter helen helena helene helga
    helmut hendrik henri henrik henrique henry herbert herman hermann hilda hildegard hinata hiro hiroshi holger
    holly horst howard hubert hudson hugh hugo hui hunter huong hussein hye-jin hyun hélène ian ibrahim ida ifeoma
    ignacio igor iker ilse imran ina indira ines inga inge ingeborg ingo ingrid ingvar inès ioana iona irene irina
    iris irmgard isaac isabel isabella isabelle isaiah ishaan isla ismail istvan itzel ivan ivana ivo jack jackie
    jackson jacob jacqueline jade jadwiga jake jakob jamal james jamie jan jana jane janet janice janine jannik
    jannis jared jasmin jasmine jason jaspreet javier jay jayden jean jeanette jeff jeffrey jelle jenna jennifer
    jenny jens jeremiah jeremy jerome jerry jesper jess jesse jessica jesus jette jianguo jill jim jimmy jin-woo
    jing jiri jisoo jo joachim joan joana joanna joanne joao joaquin joaquina jochen jodie joe joel joelle johan
    johann johanna johannes john johnny jolene jon jonah jonas jonathan joost jordan jordi jorge jose josef joseph
    josephine josh joshua josé jovana joy joyce juan juana juanita judith judy jules julia julian juliana julie
    julien juliet julio julius jun june jurgen jussi justin justine jytte jörg jürgen kai kaisa kamal kamau kamila
    karen kari karim karin karl karl-heinz karla karolina karsten kasia kasper kate katharina katherine kathleen
    kathryn kathy katie katja katka katrin katrina katya kavya kayla kazuo kees keiko keisha keith kelly kelsey
    kemal ken kenji kenneth kenny kenta kerry kerstin kevin khalid kim kimberly kira kirsten klaus knut kofi konrad
    konstantin kostas kristen kristian kristin kristina krzysztof kumar kurt kwabena kwame kwesi kyle lakshmi lan
    lara larissa larry lars lasse laszlo latoya laura lauren laurence laurent laurie layla lea leah lech lee leif
    leila lena leni leo leon leona leonard leonardo leonie leopold lerato leroy leslie leticia levi levin lewis
    leyla li liam lidia lila lilian lily lin lina linda lindsay linh linnea linus lisa liv livia liz liza lloyd
    logan lois lola lorena lorenzo lori lorraine lothar lotte louis louisa louise luc luca lucas lucia lucie lucy
    ludmila ludovica ludwig luigi luis luisa luka lukas luke lutz lydia lynn léa mabel mackenzie madeleine madison
    maeve magda magdalena maggie magnus mahmoud mairi maja malcolm malee malik malte mandy manfred manuel manuela
    mara marc marcel marcella marcia marco marcos marcus marek margaret margarita margot maria mariam mariana
    marianne marie marijke marina mario marion marisa marius marjorie mark marko markus marlene marlon marlowe marta
    martha martin martina marvin mary maryam masha mason mateo mathias mathilda matilda matilde mats matt matteo
    matthew matthias matti maureen maurice mauricio max maximilian maxine may maya meenakshi meera meg megan mehmet
    mei mei-ling mel melanie melinda melissa melody mercedes meredith merle mia michael michaela michel michele
    michelle mieke miguel mihai mike mikhail mikkel mila milan mildred milena miles milo milos min-ji mina ming minh
    minho mira miranda mirela miriam mitch mohamed mohammed moira molly mona monica monika monique montse morgan
    moritz moses moussa muhammad mulu murat muriel mustafa myra myriam nadia nadine nadja nancy naoko naomi narges
    nasrin natalia natalie natasha nate nathalie nathan nathaniel neele neha neil nell nelly nelson ngozi nguyen
    niamh nicholas nick nico nicola nicolas nicole nigel nikhil niklas niko nikolai nikolaus nikos nila nils nina
    nisha njeri nkechi noah noel noemi nomsa noor noortje nora norbert norma norman nour noé nuria nurul nyasha
    obinna octavia oisin olaf ole oleg olga oliver olivia olivier oluwaseun omar ondrej ornella oscar osman otieno
    ottavia ottilie otto ousmane owen pablo padraig pamela paola paolo parisa parker pascal pat patricia patrick
    patrik paul paula paulina pauline pavel pavla paz pedro peggy pekka penelope penny per percy petar peter petra
    petros phil philip philipp phillip phoebe phuong phyllis pia pierre pieter pilar piotr polly pooja prakash
    preeti priya priyanka quentin quinn rachel radu rafael ragnar rahim rahul rainer raj rajesh ralf ralph rami
    ramon ramona randy rania raphael raphaël raquel rashid rasmus raul ravi ray raymond rebecca reggie regina
    reinhard rekha ren renata renate rene renée reza rhonda rhys ricardo riccardo richard rick ricky rita rob robert
    roberta roberto robin rocio roderick rodney rodrigo roger rohan rohit roland rolf roman ron ronald ronja ronnie
    rosa rosalie rosalind rosalinda rosario rose rosemarie rosemary rosie ross roxanne roy ruben rudi rudo rudolf
    rudy rufus rui rupert russell ruth ryan sabine sabrina sachin sadie said sakura salim sally salma salvador
    salvatore sam samantha samir samira sammy samuel sandra sandy sanjay sanne santiago saoirse sara sarah sascha
    sasha saskia satoshi saul savannah scott sean sebastian selam selena selin selma sem seojun serena sergei sergio
    seth shane shannon sharon shaun shauna shawn sheila shelby shelly sherry shirin shirley shreya sibylle siddharth
    sidney siegfried sienna signe sigrid sigurd silas silke silvia simon simona simone simran sina sinead siobhan
    sipho siri siti sneha sofia sofie solveig somchai sonia sonja sonya soo-jin sophia sophie soraya spencer spyros
    stacey stacy stan stanislav stanley stavros stefan stefanie stelian stella stellan stephan stephanie stephen
    steve steven stewart stuart sue sunita suresh susan susana susanna susanne susie suzanne sven svenja svetlana
    sybille sylvia sylvie søren tabea takeshi takumi tamar tamara tammy tana tania tanja tanvi tanya tara tarek
    tariq tatenda tatiana tatjana taylor ted tendai terence teresa teri terry tesfaye tessa thabo thandi thanh thea
    thelma theo theodor theodore theresa therese thiago thiri thomas thorsten tiago tiffany till tim timo timothy
    tina tjark tobiah tobias toby todd tom tomas tomasz tommy toni tony torsten tove tracey tracy trang travis
    trevor tricia trisha trudy tuan tunde tuomas tyler tyrone uday udo ugo uli ulrich ulrike umar ursula uschi ute
    uwe vaclav valentin valentina valeria valerie vance vanessa vasiliki vera verena vernon veronica veronika vesna
    vicki vicky victor victoria vijay vikram viktor vince vincent vincenzo viola violet virginia vivian viviane
    vladimir volker wallace walter waltraud wanda wangari wanjiru warren wayne wei wendy werner wes wesley wiebke
    wilfried wilhelm will willem william willy wilma wim wojciech wojtek wolfgang wyatt xavier xiao ximena xiulan
    xochitl yael yan yannick yara yasemin yash yasin yasmin yasmine yaw yetunde yiannis yoko yolanda yosef youssef
    yui yuki yuri yusra yusuf yvette yvonne zach zachary zack zahra zainab zanele zara zdenek zeynep zoe zoey zofia
    zola zora zoran zoë zsofia zuzana
    """
)
"""Given names, in lower case."""

PLACES: Final = words(
    """
    aachen aarhus abuja accra addis afghanistan africa agra alabama alaska albania alberta algeria algiers america
    amsterdam andalusia andorra angola antarctica argentina arizona armenia asia asunción athen athens atlanta
    auckland augsburg austin australia austria azerbaijan bahamas bahrain bali baltimore banff bangalore bangkok
    bangladesh barbados barbican barcelona basel bath bavaria bayern beijing beirut belarus belfast belgien belgium
    belgrade belize benin bergen berlin bern bhutan bielefeld bilbao birmingham bochum bogota bogotá bolivia bologna
    bombay bonn bordeaux bosnia boston botswana brasilien bratislava braunschweig brazil bremen brighton brisbane
    bristol britain brittany brooklyn brunei brussels brüssel bucharest budapest bulgaria bulgarien burundi busan
    cairo calgary california cambodia cambridge cameroon canada canaria canberra caracas cardiff casablanca
    catalonia chad chemnitz chengdu chennai chiang chicago chile china cologne colombia colombo colorado congo
    connecticut copenhagen corfu cork cornwall crete croatia cuba cusco cyprus czechia córdoba dakar dallas damascus
    delhi denmark denver detroit deutschland devon dhaka djibouti doha dortmund dresden dubai dublin duisburg durban
    dusseldorf dänemark düsseldorf ecuador edinburgh egypt eindhoven england erfurt eritrea essen estonia ethiopia
    europe fez fiji finland finnland florence florenz florida france frankfurt frankreich freiburg fukuoka gabon
    galway gambia gdansk geneva genf genoa germany ghana ghent glasgow goa gothenburg gran granada graz greece
    greenland grenada griechenland guadalajara guangzhou guatemala guinea guyana göteborg göttingen haiti halle
    hamburg hannover hanoi hanover harare harlem havana hawaii heathrow heidelberg helsinki hessen hiroshima
    hollywood honduras houston hungary hyderabad ibiza iceland idaho illinois india indien indonesia innsbruck iowa
    iran iraq ireland israel istanbul italien italy jaipur jakarta jamaica japan java jena jerusalem johannesburg
    jordan kairo kampala kanada kansas karachi karlsruhe kassel kathmandu kazakhstan kent kentucky kenya kerala kiel
    kiev kigali kobe koblenz kolkata konstanz kopenhagen kosovo krakow kraków kreta kroatien kuwait kyiv kyoto
    kärnten köln lagos lahore laos latvia lausanne lebanon leeds leipzig leverkusen liberia libya liechtenstein
    liege lima linz lisbon lissabon lithuania liverpool ljubljana london louisiana louvre lucerne lusaka luxembourg
    lyon lübeck macau macedonia madagascar madrid magdeburg mailand maine mainz majorca malaga malawi malaysia
    maldives mali mallorca malmo malmö malta manchester manhattan manila mannheim maputo marokko marrakech marrakesh
    marseille massachusetts mauritius mazatlán medellín melbourne memphis mexico mexiko miami michigan milan
    minneapolis minnesota minsk missouri moldova mombasa monaco mongolia montana montenegro montevideo montreal
    morocco moscow moskau mozambique mumbai munich myanmar málaga münchen münster nagoya nairobi namibia naples nara
    nashville neapel nebraska nepal netherlands nevada nicaragua nice niederlande niger nigeria normandy norway
    norwegen nuremberg nürnberg odense ohio okinawa oklahoma oldenburg oman ontario oregon osaka oslo osnabrück
    ottawa oxford paderborn pakistan palermo palestine palma panama paraguay paris passau patagonia peking
    pennsylvania perth peru philadelphia philippines phoenix phuket pittsburgh poland polen portland porto portugal
    potsdam prag prague provence pune punjab qatar quebec queens quito rabat regensburg reykjavik rhodes riga rom
    romania rome rostock rotterdam rumänien russia russland rwanda rügen saarbrücken sachsen saigon salzburg samoa
    santiago sapporo sarajevo sardinia scandinavia schweden schweiz schwerin scotland seattle senegal seoul serbia
    seville shanghai sheffield shenzhen siberia sicily singapore slovakia slovenia sofia somalia spain spanien split
    stockholm strasbourg stuttgart sudan sumatra suriname sweden switzerland sydney sylt syria são südafrika
    südtirol taipei taiwan tajikistan tallinn tampere tanzania tbilisi tehran tenerife teneriffa tennessee texas
    thailand thüringen tirol togo tokio tokyo tonga toronto toulouse trier trieste tripoli tromsø tunesien tunis
    tunisia turin turkey turku tuscany türkei uganda uk ukraine ulm ungarn uppsala uruguay usa usedom utah utrecht
    uzbekistan valencia valparaíso vancouver varanasi vegas venedig venezuela venice vermont verona vienna vietnam
    vilnius virginia wales warsaw warschau washington weimar wellington wien wiesbaden windhoek winnipeg wisconsin
    wolfsburg wroclaw wuppertal wyoming würzburg yemen york yorkshire zagreb zambia zanzibar zimbabwe zurich zürich
    ägypten österreich
    """
)
"""Countries, regions and cities, in lower case; one word of each."""


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
