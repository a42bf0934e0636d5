"""What the long documents are made of; long.py says how."""

COUNCIL = {
    "name": "council",
    "opening": [
        "{place} town council met in the old grain hall on {day} {month} {year}, with councillor {ann} in the chair.",
        "Councillors {bob}, {cat} and {dan} were present, and about thirty residents sat in the gallery.",
        "The minutes of the previous meeting were approved without changes, and the chair asked everybody to keep to the time that the agenda gives.",
    ],
    "order": "any",
    "items": [
        "the leaking roof of the library", "a new crossing near the school", "the weekly market",
        "street lamps along the canal", "the price of swimming lessons", "noise from the sawmill",
        "the bus to the hospital", "trees on the station road", "the old fire engine",
        "a playground for small children", "winter salt for the roads", "the museum's opening hours",
        "a bench at the viewpoint", "flood barriers by the river", "the youth orchestra",
        "bicycle parking at the station", "repairs to the clock tower", "the community kitchen",
        "a field for dogs", "wireless access in the reading room", "the fence of the allotments",
    ],
    "heading": "Item {number}: {item}.",
    "facts": {
        "cost": (12, 96), "votes": (5, 9), "against": (1, 4), "weeks": (3, 14), "letters": (6, 58),
        "share": (15, 70),
    },
    "paragraph": [
        [
            "Councillor {bob} introduced the matter and reminded the meeting that it had been put off twice since the spring.",
            "The clerk reported that {letters} letters had arrived about this, most of them in favour and a few rather angry.",
            "Councillor {cat} showed photographs taken last month and asked the members to look at them before they spoke.",
            "A resident of Mill Lane was given three minutes and used them to explain why the present state cannot go on.",
            "The chair noted that the neighbouring district had dealt with the same question a year ago and had been content with the outcome.",
        ],
        [
            "The estimate stands at {cost} thousand, of which the county may pay {share} per cent if the form is sent in time.",
            "According to the treasurer, {cost} thousand would have to come from the reserve, which would then be at its lowest for ten years.",
            "Two offers have been received; the cheaper one is {cost} thousand and does not include the work on the foundations.",
            "Nobody could say with certainty what it would cost, but {cost} thousand was named by both experts who had been asked.",
        ],
        [
            "Councillor {dan} doubted the figures and wanted to know who would pay if the work took longer than planned.",
            "There was some discussion about whether volunteers could do a part of the work on Saturdays, as they had done at the bowling green.",
            "Councillor {bob} warned that a cheap solution would have to be replaced within five years and would then be the dearer one.",
            "Several members said that they would rather do one thing properly than three things badly, and there was applause from the gallery.",
            "It was pointed out that the contractor had been late with an earlier job, although the quality of that job had been praised.",
        ],
        [
            "In the end the proposal was carried by {votes} votes to {against}, with the condition that a report follows within {weeks} weeks.",
            "The members agreed by {votes} votes to {against} to start in the autumn, and to inform the people who live next to the site beforehand.",
            "The proposal was put to the vote and rejected by {votes} votes to {against}; a cheaper version may be brought back after {weeks} weeks.",
            "By {votes} votes to {against} the decision was postponed for {weeks} weeks so that the engineer can look at the ground.",
        ],
        [
            "Councillor {cat} will write to the county and will also answer the letters.",
            "The clerk was asked to put the drawings on the notice board, where anybody may add remarks.",
            "Councillor {dan} offered to speak with the owners, since he has known them for many years.",
            "A small group of three members will meet on site and will take the caretaker along.",
            "Nothing further was decided, and the chair thanked the gallery for its patience.",
        ],
    ],
    "questions": [
        "Which of these items were carried, which were rejected and which were postponed? Make a table with the votes and name the person who has to act next.",
        "Add up what the council of {place} may have to spend on the items that were carried, and say which of the sums is the least certain and why.",
        "Write a news report of two hundred words about this meeting for people who live in {place} and had no time to come.",
        "What did councillor {dan} object to in the course of the evening, and do the minutes show that anybody answered him?",
    ],
}

EXPEDITION = {
    "name": "expedition",
    "opening": [
        "{place} valley had not been mapped for sixty years when our party of five set out on {day} {month} {year} to walk it from the lake to the pass.",
        "This is the diary that {ann} kept on the way; the others were {bob}, who cooked, {cat}, who carried the instruments, {dan}, who knew the birds, and a mule.",
        "The spelling has been corrected, and nothing else.",
    ],
    "order": "as given",
    "items": [
        "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth",
        "tenth", "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth",
        "seventeenth", "eighteenth", "nineteenth", "twentieth", "twenty-first", "twenty-second",
    ],
    "heading": "On the {item} day",
    "facts": {
        "km": (6, 19), "height": (420, 1980), "cold": (2, 11), "herons": (3, 40), "hours": (5, 9),
        "bread": (1, 6), "colour": ["grey", "pale green", "almost black", "brown", "silver"],
    },
    "paragraph": [
        [
            "we left the camp before sunrise and made {km} kilometres along the stream, which was {colour} after the rain.",
            "the fog kept us in the tents until ten, and even so we made {km} kilometres before it grew dark.",
            "we covered {km} kilometres in {hours} hours, most of it over loose stones that moved under every step.",
            "we took the upper path, which {bob} did not trust, and found after {km} kilometres that he had been right.",
            "the mule refused to cross the ford, so we went round by the old bridge, which made {km} kilometres out of four.",
        ],
        [
            "The barometer gave {height} metres at noon, and {cat} wrote down the figure twice because the first pencil broke.",
            "At {height} metres the trees end as if somebody had drawn a line, and from there one sees the whole of the lake.",
            "We measured the height of the saddle three times and agreed on {height} metres, which is forty more than the old map has.",
            "The cairn stands at {height} metres; inside it we found a tin box with a list of names that nobody could read any more.",
        ],
        [
            "{dan} counted {herons} herons on the sandbank and was so pleased that he forgot to eat.",
            "In the reeds there was a nest as large as a cartwheel, and {dan} would not let us go nearer than fifty steps.",
            "We saw no animal all day except a fox, which followed us for an hour and seemed to be curious about the cheese.",
            "Two eagles were above us the whole afternoon, and {dan} drew them from memory in the evening.",
            "A herd of wild goats looked down at us from the rocks, {herons} of them, and did not move until we had passed.",
        ],
        [
            "For supper there was barley soup, and {bread} loaves of bread are left.",
            "{bob} made pancakes from the last eggs, and we have {bread} loaves until the next hut.",
            "We traded a knife for honey with a shepherd, who also told us that the bridge ahead was gone; {bread} loaves remain.",
            "The rice got wet in the sack, so {bob} cooked all of it, and we ate more than we should have with {bread} loaves still to last us.",
        ],
        [
            "The night was clear and cold, {cold} degrees below zero, and the ropes were stiff in the morning.",
            "It rained from midnight on, and {ann} gave up the dry place for the instruments without being asked.",
            "My left boot has opened at the seam; {cat} sewed it by the fire with wire and a fish hook.",
            "Nobody said much in the evening, which is how I know that everybody was content.",
            "There was an argument about the route, and we settled it by letting the mule choose, since it had been right twice.",
            "The wind took one of the tents shortly before dawn, and we found it in a thorn bush, whole but for one corner.",
        ],
    ],
    "questions": [
        "On which day did the party cover the longest distance, and what slowed it down on the others? Quote the figures that you use.",
        "Judging by this diary, what did each of the five members contribute? Answer with two sentences for each, the mule included.",
        "How did the food supply change during the walk through the {place} valley? Point out the entries that do not fit together.",
        "Write the summary that {ann} could send to a newspaper: one hundred and fifty words, sober, with the three most important figures.",
    ],
}

SURVEY = {
    "name": "survey",
    "opening": [
        "{place} House was inspected on {day} {month} {year} at the request of the buyers, who had asked for plain language and a clear order of urgency.",
        "The surveyor, {ann}, was let in by the agent, {bob}, and had the keys for six hours; the weather was dry after a week of rain.",
        "The house was built in 1911, altered in the sixties and has been empty for {empty} months.",
    ],
    "cast": {"empty": (4, 30)},
    "order": "any",
    "items": [
        "Entrance hall", "Kitchen", "Dining room", "Front parlour", "Library", "Main staircase",
        "First bedroom", "Second bedroom", "Third bedroom", "Bathroom", "Attic", "Cellar",
        "Roof", "Chimneys", "Garage", "Garden wall", "Heating", "Wiring", "Drains", "Windows",
        "Veranda", "Laundry room",
    ],
    "heading": "{item}.",
    "facts": {
        "cost": (3, 88), "damp": (14, 31), "mm": (2, 9), "years": (2, 12), "age": (20, 70),
        "grade": ["urgent", "to be done within a year", "to be watched", "of no concern"],
    },
    "paragraph": [
        [
            "The general impression is better than the photographs suggest, although the paint hides a good deal.",
            "This part was altered about {age} years ago, by somebody who knew his trade but saved on the material.",
            "Access was limited by furniture and boxes, so about a third could only be judged from one side.",
            "The agent said that it had been renewed recently; the fittings point to {age} years ago instead.",
            "Nothing has been changed here for about {age} years, and most of it is sound for that very reason.",
        ],
        [
            "The moisture meter read {damp} per cent near the floor and much less at the height of the shoulder.",
            "A crack of {mm} millimetres runs from the upper corner to the middle and has been filled at least once.",
            "The timber gave a dull sound in two places, and a blade went in by {mm} millimetres without effort.",
            "The level is out by {mm} millimetres over a metre, which one notices when a door swings open by itself.",
            "There are brown rings on the plaster, the largest as wide as a plate, and they were dry to the touch.",
        ],
        [
            "The likely cause is a gutter that has been blocked for years, and not a fault of the walls themselves.",
            "In my opinion the ground has settled and has now come to rest, but only a gauge read over a winter can prove it.",
            "I could not find the cause within the time that I had, and I do not want to guess.",
            "The cause is poor ventilation, which is cheap to put right and is nearly always blamed on something else.",
        ],
        [
            "I grade this as {grade} and would allow {cost} hundred for the work, without the decoration afterwards.",
            "A repair would cost about {cost} hundred and should last {years} years if it is done before the next frost.",
            "Two craftsmen whom I asked by telephone named {cost} hundred and twice as much; I would take the first figure with care. The matter is {grade}.",
            "It is {grade}. A replacement costs {cost} hundred, a patch a quarter of that, and the patch would have to be repeated after {years} years.",
        ],
        [
            "The buyers should ask the seller for the invoices of the earlier work.",
            "Nobody should store anything heavy here until a carpenter has seen it.",
            "If only one thing can be done this year, I would not choose this one.",
            "I recommend that an electrician looks at the sockets at the same visit.",
            "A neighbour, {cat}, remembers water standing here in the spring of the great flood.",
            "I would look at it again after {years} years, or sooner if the marks grow.",
        ],
    ],
    "questions": [
        "Which findings at {place} House are urgent, what would they cost together, and which of the costs does the surveyor herself call uncertain?",
        "The buyers can spend four thousand this year. Choose the repairs that they should make first and give the reason for each in one sentence.",
        "Where does the report of {ann} contradict what the agent {bob} said, and how much does each contradiction matter for the price?",
        "Turn this report into a letter to the seller that asks for a lower price. Name the three strongest points with their figures.",
    ],
}

INCIDENT = {
    "name": "incident",
    "opening": [
        "{place} Payments was unable to take orders for most of the morning of {day} {month} {year}, and this report says what happened, why, and what will change.",
        "It was written by {ann} from the chat history, the logs and four conversations; it blames no one, since everybody acted sensibly on what they could see.",
        "The people on duty were {bob} for the database, {cat} for the network and {dan} for the shop itself.",
    ],
    "order": "as given",
    "items": [
        "05:52", "06:04", "06:11", "06:23", "06:37", "06:45", "07:02", "07:18", "07:29", "07:41",
        "07:58", "08:06", "08:20", "08:33", "08:51", "09:07", "09:24", "09:40", "10:05", "10:31",
        "10:58", "11:20",
    ],
    "heading": "At {item}",
    "facts": {
        "errors": (3, 64), "queue": (120, 9800), "ms": (90, 4200), "minutes": (4, 18),
        "machine": ["alder", "beech", "cedar", "dogwood", "elm", "fir", "gum", "holly"],
    },
    "paragraph": [
        [
            "an alarm reported that {errors} per cent of the requests to {machine} had failed, and {bob} confirmed that it was no false one.",
            "the queue in front of {machine} held {queue} orders, ten times what is usual at this hour.",
            "customers began to write that the page stayed white; the median answer took {ms} milliseconds by then.",
            "{cat} noticed that only the traffic through {machine} was slow, while the other machines were almost idle.",
            "the graph for {machine} went flat, which looked like a recovery and was in truth a sensor that had stopped.",
        ],
        [
            "The first idea was that the release of the evening before was at fault, so {dan} rolled it back, which took {minutes} minutes and changed nothing.",
            "{bob} suspected the nightly backup, since it had run longer than planned, and stopped it; the load fell a little and then rose again.",
            "Somebody proposed to restart everything, and {cat} argued against it, because the evidence would have been lost.",
            "The team split up: {dan} answered the customers, {cat} followed the packets, and {bob} read the slow queries one by one.",
            "A second look at the dashboard showed that two of its lines were drawn with different scales, which had misled everybody for {minutes} minutes.",
        ],
        [
            "By comparing two captures they found that one request in {minutes} was sent twice.",
            "A connection pool with room for twenty had been asked for {queue} connections.",
            "The certificate on {machine} had been renewed, but the old one was still in the memory of the process.",
            "The clock of {machine} was {ms} milliseconds ahead, enough for every token to be refused as coming from the future.",
            "A disk on {machine} answered in {ms} milliseconds instead of four, without reporting any error.",
        ],
        [
            "They moved the traffic away from {machine} in steps of ten per cent and watched after each step for {minutes} minutes.",
            "The limit was raised by hand, and the share of failures settled at {errors} per cent, which was still too much to call it solved.",
            "They decided to wait for {minutes} minutes before the next change, so that its effect could be told from that of the last one.",
            "A message was sent to all shops, and the support desk was given three sentences to use on the telephone.",
        ],
        [
            "In hindsight, the runbook would have helped if it had not named a machine that was retired last year.",
            "In hindsight, this was the moment at which a fourth person should have been called.",
            "What went well here is that every step was written down with its time before it was taken.",
            "What went badly here is that two people changed the same setting without knowing of each other.",
            "Nobody had slept much, and {ann} asks that this be taken into account when the duty roster is planned.",
        ],
    ],
    "questions": [
        "Reconstruct the chain of causes in this incident at {place} Payments. Separate what the report proves from what it only suggests.",
        "Which actions made things better, which had no effect and which cost time? List them with the clock time of each.",
        "Propose five measures that follow from this report, the most useful first, and name for each the paragraph that supports it.",
        "Write a message of one hundred words to the customers of {place} Payments: honest, without technical terms, with an apology and one promise.",
    ],
}

CHRONICLE = {
    "name": "chronicle",
    "opening": [
        "{place} is a village of four hundred people on a hill above a slow river, and its chronicle has been kept by the schoolteachers since the first of them, {ann}, arrived on foot.",
        "What follows is taken from their notebooks, shortened in places, with the prices in the money of the time.",
        "Three families appear again and again: the {bob} family at the mill, the {cat} family at the inn and the {dan} family on the large farm.",
    ],
    "order": "as given",
    "items": [
        "1871", "1874", "1879", "1883", "1888", "1892", "1897", "1901", "1906", "1911", "1919",
        "1923", "1928", "1934", "1947", "1952", "1958", "1963", "1971", "1978", "1986", "1994",
    ],
    "heading": "In {item}",
    "facts": {
        "pupils": (18, 74), "price": (20, 900), "days": (9, 60), "sheep": (30, 420), "births": (3, 19),
        "thing": ["pump", "bell", "weighbridge", "bakehouse", "bridge", "schoolroom", "sundial"],
    },
    "paragraph": [
        [
            "the {bob} family rebuilt the mill after a fire, and the whole village carried stones for {days} days.",
            "the {cat} family bought the meadow by the river for {price}, and there was talk about where the money came from.",
            "the {dan} farm lost {sheep} sheep to a disease that no one had a name for.",
            "a new {thing} was opened with music, and the speech lasted longer than the building of it, as one pupil wrote.",
            "the road to the market town was finished at last, so that the journey took half a day instead of a whole one.",
        ],
        [
            "The school had {pupils} pupils in two rooms, and in January only half of them came, for want of shoes.",
            "There were {births} births and fewer funerals, which had not happened for a long time.",
            "The harvest was late by {days} days, and rye cost {price} a sack before Christmas.",
            "A travelling photographer stayed at the inn for {days} days and took the picture that still hangs in the hall.",
            "The teacher began to measure the rain, and found that the wettest month was not the one that everybody believed.",
        ],
        [
            "There was a quarrel about the {thing}, because the {bob} family and the {dan} family each claimed to have paid for it.",
            "The inn was closed by order of the county, and opened again under another name three weeks afterwards.",
            "A daughter of the {cat} family went to the city to become a doctor, the first person from here to do so.",
            "The river rose as high as the third step of the church, where a line was cut into the stone.",
            "Two brothers of the {dan} family emigrated and sent back a letter that was read aloud in school.",
        ],
        [
            "People helped one another more in this year than in the good ones, the teacher remarked, and forgot it sooner.",
            "The collection for the {thing} brought in {price}, more than the much larger parish across the river had given.",
            "When the frost came, {sheep} sheep were driven into the church, and the service was held in the barn.",
            "The first {thing} of its kind in the whole county stood here, and visitors came to look at it on Sundays.",
        ],
        [
            "The notebook for this year ends with a drawing of a cat.",
            "A page is missing at this place, and the next one is in another hand.",
            "The teacher adds that all of this will seem small to later readers, and that it did not seem small to those who lived it.",
            "Somebody has written the word no in the margin, and nobody knows to which sentence it belongs.",
            "At the end of the year {births} children were able to read a newspaper, and the teacher counted that as the true event.",
        ],
    ],
    "questions": [
        "What does this chronicle tell about the relations between the {bob}, {cat} and {dan} families? Put the evidence in order of time.",
        "Pick the five years that changed daily life in {place} the most, and explain each choice in two sentences.",
        "Which statements in the chronicle of {place} would a historian distrust, and which other source could confirm them?",
        "Write the text for a plaque of eighty words at the entrance to {place}, using only what the chronicle says.",
    ],
}

TRIAL = {
    "name": "trial",
    "opening": [
        "{place} Bakery wanted a loaf that stays fresh for three days without additives, and {ann} was given the month of {month} {year} to find one.",
        "This is the notebook of the trials; {bob} kneaded, {cat} tasted without knowing which loaf was which, and {dan} did the sums.",
        "Ten points mean that one would cross the town for it, and one point means that the ducks got it.",
    ],
    "order": "any",
    "items": [
        "rye with sour dough", "spelt with yoghurt", "wheat with potato", "oats soaked overnight",
        "barley malt", "honey and butter", "whole wheat, cold rise", "linseed and carrot",
        "durum with olive oil", "buckwheat, half and half", "wheat with whey", "rye with caraway",
        "spelt with walnuts", "wheat with boiled rice", "emmer, long knead", "maize and milk",
        "pumpkin and seeds", "beer instead of water", "wheat, steam oven", "old bread, soaked",
    ],
    "heading": "Trial {number}, {item}.",
    "facts": {
        "mark": (2, 9), "later": (1, 8), "water": (58, 84), "hours": (3, 26), "degrees": (205, 260),
        "cents": (38, 97), "weight": (610, 890),
    },
    "paragraph": [
        [
            "The dough took {water} per cent of water and was left alone for {hours} hours at the temperature of the cellar.",
            "We used {water} per cent of water, more than the book says, and gave it {hours} hours because of the cold.",
            "With {water} per cent of water it stuck to everything, and after {hours} hours it had run over the edge of the trough.",
            "{bob} kneaded it twice with {hours} hours between, at {water} per cent of water, and was happy with how it felt.",
        ],
        [
            "It went in at {degrees} degrees and came out with a dark crust and a weight of {weight} grams.",
            "The oven stood at {degrees} degrees, but the left side was hotter, as always, and two loaves there were lost.",
            "At {degrees} degrees the top tore open; the rest was even and weighed {weight} grams after an hour.",
            "We started at {degrees} degrees and let it fall, which gave a thin crust and {weight} grams.",
        ],
        [
            "On the first day {cat} gave it {mark} points and wrote that it smelled like the kitchen of an aunt.",
            "Fresh, it got {mark} points; the crumb was uneven, though nobody but us would mind.",
            "The mark of the first day was {mark}, with the remark that it needed salt.",
            "{cat} gave it {mark} points, took a second slice, and did not change the mark.",
        ],
        [
            "On the third day the mark was {later}, and the crust had gone soft in the paper bag but not in the wooden box.",
            "On the third day it was down to {later}; toasted, it would have been a good deal more.",
            "After three days {cat} wrote {later}, and this time there was no remark at all.",
            "By the third day it deserved {later} points, and it cut more cleanly than it had on the first.",
        ],
        [
            "{dan} puts the flour, the heat and the time at {cents} cents a loaf.",
            "At {cents} cents a loaf it could be sold, if people can be brought to like the colour.",
            "The cost of {cents} cents does not include the extra hour, which somebody has to be paid for.",
            "It comes to {cents} cents, and half of that is the one ingredient that nobody tasted.",
        ],
        [
            "To be repeated with less water.",
            "Not to be repeated, although {bob} disagrees and has taken the rest home.",
            "Worth another attempt in summer, when the cellar is warmer.",
            "We forgot to write down which flour it was, so this trial counts for half.",
            "The result is close to that of the day before, and we should bake both on one day to be sure.",
            "A customer who happened to come in asked for two of them.",
        ],
    ],
    "questions": [
        "Which three trials should {place} Bakery repeat, given the marks of the first and the third day and the cost? Show the comparison as a table.",
        "Is there a connection between the share of water and the mark on the third day in these trials? Say how sure one can be.",
        "What was careless about the way these trials were done, and how should {ann} plan the next ten so that the results can be compared?",
        "Recommend one loaf to the owner of {place} Bakery in a letter of a hundred and fifty words, and be open about what speaks against it.",
    ],
}

INTERVIEW = {
    "name": "interview",
    "opening": [
        "{place} Station has a clock that has not been wrong since {year}, and the woman who looks after it, {ann}, has repaired clocks for most of her life.",
        "We talked for an afternoon in her workshop, among some two hundred clocks of which, she says, eleven are right.",
        "Her apprentice {bob} made tea and corrected her twice.",
    ],
    "order": "any",
    "items": [
        "How did you come to this work?", "What is the first thing you do with a clock?",
        "Which repair are you proud of?", "Which one went wrong?", "What do customers not know?",
        "Do you mind electric clocks?", "How do you set a price?", "What do you teach first?",
        "Is there a clock that you refuse?", "How do you find a fault?", "Which tool matters most?",
        "What does the weather do?", "Do you ever work at night?", "Who taught you?",
        "What has changed in the trade?", "Would you repair this one of mine?",
        "What do you do with a clock nobody collects?", "Why do clocks stop?",
        "Is accuracy overrated?", "What will become of the workshop?",
    ],
    "heading": "{item}",
    "facts": {
        "age": (9, 34), "clocks": (3, 60), "minutes": (2, 25), "weeks": (2, 30), "price": (15, 240),
        "part": ["spring", "pendulum", "escapement", "dial", "hairspring", "gear train", "chime"],
        "who": ["a priest", "a retired sailor", "two sisters", "a banker", "a schoolboy", "the postmistress"],
    },
    "paragraph": [
        [
            "When I was {age} years old I would have given you another answer, and a longer one.",
            "Let me tell you about {who} who came in with a clock wrapped in a towel and asked me the very same thing.",
            "People expect something wise at this point, and the truth is that it comes down to the {part}.",
            "That depends on the {part}, and also on whether I have had lunch.",
            "{bob} asks me this every Monday, and I say something different each time to see whether he is listening.",
        ],
        [
            "In my first year I took {clocks} clocks apart and put most of them together again, and that teaches you more than any book about the {part}.",
            "You listen for {minutes} minutes before you touch anything, because the sound of the {part} tells you half of it.",
            "I once spent {weeks} weeks on a single {part}, and when it was done nobody could see a difference, which was the point.",
            "There was a clock that lost {minutes} minutes a day for {who}, and the cause was not the {part} at all but the shelf it stood on.",
            "I keep a notebook with every {part} that I have changed, and the same mistakes come back after {weeks} weeks as regularly as the seasons.",
        ],
        [
            "My teacher, old {cat}, used to say that a clock is an argument between a weight and a wheel, and that our work is to keep it polite.",
            "If I charge {price} for it, people think that I am cheating them; if I charge twice that, they think that I know something.",
            "Of {clocks} clocks that come in with a broken {part}, I suppose a third were broken by somebody who wanted to help.",
            "The cheap ones are not worse, you know; they are only less patient with you.",
            "My neighbour {dan} makes violins, and we have agreed that wood and brass are equally stubborn in a wet autumn of {weeks} weeks.",
        ],
        [
            "I got it wrong once, with {who}, and I paid back the {price} and wrote an apology, and they are customers to this day.",
            "It took {minutes} minutes, and I was asked why it cost {price}; I said that the minutes were free and the years were not.",
            "There are {clocks} of them on that wall waiting, and I could not tell you the owner of more than half.",
            "You can see it on the photograph there, behind the kettle, next to the bill for {price} that was never paid.",
        ],
        [
            "So no, I have no regrets about it.",
            "Ask me again in ten years and bring a better question.",
            "{bob} will tell you the opposite, and he may be right.",
            "After that I closed the shop for a day and went to look at the sea.",
            "That is the whole secret, and you may print it.",
            "I would do it again tomorrow, though perhaps with better light.",
        ],
    ],
    "questions": [
        "What does {ann} believe about her trade that most of her customers would not expect? Support each point with something that she says.",
        "Where does {ann} contradict herself in this interview, and can the contradictions be explained?",
        "Shorten this interview to five questions and answers for a radio programme in {place}, and keep her tone.",
        "What can somebody who writes software learn from how {ann} finds a fault? Draw three parallels and name one place where they fail.",
    ],
}

KINDS = [COUNCIL, EXPEDITION, SURVEY, INCIDENT, CHRONICLE, TRIAL, INTERVIEW]
