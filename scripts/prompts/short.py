"""Short prompts: what a person types into a chat, one or two sentences.

A family is a set of subjects and of questions that make sense for every one of them. The subject
stands among the first three words of each question, so no two prompts begin alike: a server that
caches prefixes finds none but the chat template's.
"""

# What may follow a question: the first suits explanations, the second advice, the third texts to
# be written.
EXPLAIN = [
    "Please keep it under a hundred words.",
    "An example from everyday life would help me.",
    "I am new to this, so plain words please.",
    "A short list of the main points is enough, in the order in which I should learn them.",
    "Tell me also what people most often get wrong.",
    "I would like to repeat it to my class tomorrow, and they will ask questions.",
    "Give me the short answer first and the reasons after it.",
    "Assume that I have ten minutes, a pencil and a notebook.",
    "Explain it as you would to a curious twelve-year-old.",
    "If experts disagree about it, say so, and name both sides.",
    "End with one question that I should be able to answer if I have understood it.",
    "My background is in music, so a comparison from there would be welcome.",
]
ADVICE = [
    "I would rather do it slowly than do it twice.",
    "My budget is small, but I have plenty of time at the weekend.",
    "Please number the steps, so that I can tick them off.",
    "If something depends on facts that I have not told you, ask me first.",
    "Start with what is most likely to go wrong.",
    "My sister says that it is not worth the trouble; is she right?",
    "I tried it once, three years ago, and gave up after the first week.",
    "Tell me how I will notice that it has worked.",
    "A table with two columns would be the easiest to read on my telephone.",
    "Answer as somebody who has done it often, and not like a brochure.",
    "Please say which part of your answer you are least sure about.",
    "I live alone and have only the most basic tools and equipment.",
]
WRITE = [
    "It should sound like me: friendly, a bit dry, no exclamation marks.",
    "Eighty words are plenty, and it will be read on a small screen.",
    "Offer me two versions, one formal and one that I would send to a friend.",
    "Please avoid big words, because not everybody here has the same mother tongue.",
    "Leave a gap where the date and the place belong, and I will fill them in.",
    "The person is past seventy and likes to be addressed with respect.",
    "It will be read aloud, so the sentences should be short.",
]

FAMILIES = {
    "dish": {
        "subjects": [
            "lasagna", "ramen", "paella", "goulash", "risotto", "hummus", "moussaka", "gumbo",
            "pierogi", "tamales", "shakshuka", "ratatouille", "gnocchi", "falafel", "chowder",
            "jambalaya", "tiramisu", "borscht", "biryani", "focaccia", "minestrone", "ceviche",
        ],
        "questions": [
            "Homemade {s} always turns out bland when I cook it for my family. Which steps should I change first, and why do they matter?",
            "Cooking {s} for twelve guests is my plan for Saturday. Write me a shopping list and a timetable for the day.",
            "Could {s} be made without any dairy and still taste right? Suggest replacements and say how each one changes the result.",
            "Leftover {s} fills half of my refrigerator. How long does it keep, and what else can I make from it during the week?",
            "Is {s} something that a beginner can cook on a weekday evening with one pot and one pan? Walk me through it.",
        ],
        "endings": ADVICE,
    },
    "plant": {
        "subjects": [
            "tomatoes", "lavender", "basil", "roses", "blueberries", "orchids", "pumpkins", "mint",
            "peppers", "strawberries", "hydrangeas", "rosemary", "sunflowers", "garlic", "spinach",
            "tulips", "cucumbers", "rhubarb", "carrots", "geraniums",
        ],
        "questions": [
            "Growing {s} on a small balcony that gets sun only in the morning: is it worth trying, and what would I need to buy?",
            "My {s} looked healthy until last week, and now the lower leaves are turning yellow. What should I check, and in which order?",
            "When should {s} be planted in a place with long winters, and how do I protect them from a late frost?",
            "Do {s} grow well next to onions and beans, or should I keep them in a bed of their own?",
            "Are {s} safe to have around a cat that chews on everything? If not, name three plants that are.",
        ],
        "endings": ADVICE,
    },
    "phenomenon": {
        "subjects": [
            "lightning", "rainbows", "earthquakes", "tides", "fog", "echoes", "rust", "magnetism",
            "static electricity", "auroras", "volcanoes", "tornadoes", "hail", "gravity",
            "condensation", "erosion", "eclipses", "fermentation", "friction", "buoyancy",
            "photosynthesis", "radioactivity",
        ],
        "questions": [
            "Explain {s} with one experiment that I can do in a kitchen.",
            "What causes {s}, and which part of the explanation did people understand last?",
            "Describe {s} as if you were writing the text for a sign in a science museum.",
            "Studying {s} raised a question for me: how do scientists measure it, and how sure are they of the numbers?",
            "Does {s} matter to somebody who designs bridges or houses? Give two cases where it does.",
        ],
        "endings": EXPLAIN,
    },
    "programming": {
        "subjects": [
            "recursion", "hashing", "caching", "pointers", "closures", "mutexes", "indexes",
            "transactions", "generics", "iterators", "semaphores", "queues", "sockets", "threads",
            "linting", "refactoring", "versioning", "sharding", "compression", "encryption",
        ],
        "questions": [
            "Teach me {s} with one small program in a language of your choice, and comment each line that matters.",
            "Without {s}, how would the same problem be solved, and what would become slower or harder to read?",
            "Interviewers love {s}, and yesterday I had no good answer when it came up. Write the answer that I should have given.",
            "Beginners find {s} confusing. Which mental picture do you use for it, and where does that picture break down?",
            "Reviewing {s} in other people's code is my task today. Which mistakes should I look for first, and how do I word them kindly?",
        ],
        "endings": EXPLAIN,
    },
    "city": {
        "subjects": [
            "Lisbon", "Kyoto", "Montreal", "Prague", "Nairobi", "Edinburgh", "Seville", "Hanoi",
            "Istanbul", "Krakow", "Vienna", "Cusco", "Marrakesh", "Helsinki", "Naples", "Bogota",
            "Tbilisi", "Copenhagen", "Dublin", "Valparaiso", "Ljubljana", "Osaka",
        ],
        "questions": [
            "Visiting {s} for three days with two small children and no car: what would you do on each day?",
            "Why did {s} grow where it did? Tell me about its rivers, roads and trade in a few sentences.",
            "Is {s} a good place to spend a rainy November on a modest budget? Compare it with one other city.",
            "Moving to {s} for a year of study means finding a room. Which questions should I ask before I sign anything?",
            "Suppose that {s} had to close its centre to cars. Name three things that would get better and three that would get worse.",
        ],
        "endings": ADVICE,
    },
    "instrument": {
        "subjects": [
            "piano", "violin", "guitar", "cello", "flute", "trumpet", "clarinet", "harp", "accordion",
            "banjo", "saxophone", "drum", "ukulele", "oboe", "mandolin", "trombone",
        ],
        "questions": [
            "Learning the {s} at the age of fifty: how much practice a day makes sense, and what can I play after one year?",
            "A used {s} is for sale in my street for half the usual price. What should I look at before I buy it?",
            "Inside a {s}, what makes the sound, and why do two of them by different makers sound different?",
            "Practising the {s} in a flat is hard on the neighbours. What can I do, apart from playing less, and what does it cost?",
        ],
        "endings": ADVICE,
    },
    "animal": {
        "subjects": [
            "octopuses", "hedgehogs", "penguins", "bats", "otters", "swifts", "bees", "wolves",
            "salmon", "owls", "ants", "dolphins", "beavers", "crows", "tortoises", "whales",
            "foxes", "spiders", "eels", "geese",
        ],
        "questions": [
            "How do {s} find their way over long distances or in the dark? Name the senses that they use.",
            "Why are {s} important for the place where they live, and what changes when they disappear from it?",
            "Imagine that {s} could write letters. Write one of a hundred words to the people who live nearby.",
            "Are {s} as clever as people say? Name the observations that support it, and those that are only good stories.",
            "Winter for {s} is a riddle to the children in my class. Write an answer that I can read aloud to them.",
        ],
        "endings": EXPLAIN,
    },
    "household": {
        "subjects": [
            "dishwasher", "boiler", "refrigerator", "washing machine", "toaster", "freezer", "oven",
            "dehumidifier", "radiator", "kettle", "dryer", "doorbell", "thermostat", "lawnmower",
            "coffee machine", "smoke alarm", "garage door", "shower",
        ],
        "questions": [
            "Our {s} has started to make a loud noise at night. List the likely causes from the cheapest to the most expensive repair.",
            "The old {s} in my rented flat stopped working. Write a polite but firm message to the landlord that asks for a date.",
            "Which {s} should I buy if I care more about a long life than about features? Tell me what to look for.",
            "Cleaning a {s} properly is something that nobody ever taught me. Describe it step by step, with the safety points.",
        ],
        "endings": ADVICE,
    },
    "history": {
        "subjects": [
            "printing", "railways", "vaccines", "lighthouses", "coinage", "chess", "bicycles",
            "libraries", "postage", "elevators", "glass", "canals", "calendars", "paper",
            "telescopes", "refrigeration", "passports", "zippers", "barcodes", "photography",
        ],
        "questions": [
            "Before {s} existed, how did people manage? Describe an ordinary day of a shopkeeper in that time.",
            "Who invented {s}, as far as we know, and which earlier ideas did the invention depend on?",
            "Tracing how {s} spread through the world would make a good school project. Suggest five stages and a picture for each.",
            "Behind {s} there must be a villain, or at least a bitter quarrel about who was first. Tell it in one paragraph.",
            "If {s} had been invented a hundred years later, what would be different today?",
        ],
        "endings": EXPLAIN,
    },
    "money": {
        "subjects": [
            "mortgages", "inflation", "pensions", "budgets", "leases", "dividends", "bonds",
            "insurance", "tariffs", "savings", "invoices", "subsidies", "auctions", "loans",
        ],
        "questions": [
            "Understanding {s} is harder than it should be. Give me a worked example with small round numbers.",
            "How would {s} look different in a country whose currency loses a tenth of its value every year?",
            "Myths about {s} reach every bank clerk in the course of a week: name three and correct each in one sentence.",
            "Talking about {s} with my parents ends in arguments. How can I explain the basic idea calmly?",
        ],
        "endings": EXPLAIN,
    },
    "sport": {
        "subjects": [
            "swimming", "cycling", "rowing", "fencing", "climbing", "badminton", "running", "judo",
            "archery", "curling", "skiing", "volleyball", "handball", "tennis", "sailing", "squash",
        ],
        "questions": [
            "Starting {s} after ten years at a desk worries my doctor a little. What would a careful first month look like?",
            "In {s}, what separates a good amateur from a professional, apart from talent and hours of training?",
            "Write about {s} in the style of a radio reporter who has never seen it before.",
            "Does {s} treat tall and short people alike? Suggest one change to its rules and name the side effects.",
        ],
        "endings": ADVICE,
    },
    "letter": {
        "subjects": [
            "teacher", "plumber", "neighbour", "dentist", "librarian", "grandmother", "baker",
            "professor", "gardener", "landlady", "colleague", "coach", "violinist", "mayor",
            "pharmacist", "postman",
        ],
        "questions": [
            "Thank my {s} for twenty years of patience in a short letter that is warm but not sentimental.",
            "Invite the {s} to a summer party in our yard. Mention the date, the music and that no gifts are needed.",
            "Our {s} waited for me in vain twice this month. Apologise on my behalf without making excuses, and offer a new date.",
            "For a {s} who retires in June, write a speech of one minute with one joke in it.",
        ],
        "endings": WRITE,
    },
}

NAMES = [
    "Amina", "Boris", "Clara", "Dmitri", "Elena", "Farid", "Greta", "Hugo", "Ines", "Jonas",
    "Kenji", "Leila", "Mateo", "Nadia", "Oscar", "Priya", "Quentin", "Rosa", "Samir", "Tilda",
    "Ulrich", "Vera", "Wanda", "Ximena", "Yusuf", "Zofia", "Anton", "Bianca", "Cyril", "Dalia",
]

# Sums: {a}, {b} and {c} are whole numbers; the name comes first.
SUMS = [
    "{n} cycles {a} kilometres to work and back on each of {b} days, then {c} kilometres on Sunday. How far is that in all? Show the steps.",
    "{n} buys {a} notebooks at {b} cents each and pays with {c} euros. How much change comes back, and in which coins?",
    "{n} reads {a} pages an evening. A novel has {b}0 pages and is due back in {c} days. Will that work, and with how much to spare?",
    "{n} fills a tank of {a}00 litres with a hose that gives {b} litres a minute, but {c} litres a minute leak out. When is it full?",
    "{n} and {b} friends share {a} slices of cake fairly, and {c} more guests arrive. How many whole slices does each one get now?",
]


# In characters: about 20, 45 and 60 of SmolLM2's tokens (prompts/README.md has the count).
SHORTEST, WIDEST, LONGEST = 110, 215, 248


def lengthen(dice, text, endings):
    """`text` with as many of the endings as bring it to a length drawn for it, one at least where
    it would be too short for a sentence or two."""
    wanted = dice.between(SHORTEST, WIDEST)
    for ending in dice.shuffled(endings):
        if len(text) >= wanted:
            break
        if len(text) + len(ending) < LONGEST:
            text = f"{text} {ending}"
    return text


def prompts(dice, count):
    """`count` different prompts, no two of which begin with the same three words."""
    candidates = []
    for name, family in FAMILIES.items():
        for subject in family["subjects"]:
            for question in family["questions"]:
                text = question.format(s=subject)
                candidates.append((name, lengthen(dice, text, family["endings"])))
    for name in NAMES:
        a, b, c = dice.between(11, 19), dice.between(4, 9), dice.between(2, 3)
        candidates.append(("sum", dice.pick(SUMS).format(n=name, a=a, b=b, c=c)))
    assert len(candidates) >= count, f"only {len(candidates)} prompts can be made"
    return dice.shuffled(candidates)[:count]
