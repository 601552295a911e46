//! What the models are asked: our own words, of many kinds, so that different tokens and lengths are met.

/// Twenty beginnings for greedy decoding.
pub const PROMPTS: [&str; 20] = [
    "The keeper of the lighthouse counted the ships that passed and",
    "A recipe for bread needs only four things:",
    "fn largest(numbers: &[i32]) -> Option<i32> {\n",
    "Q: Why does ice float on water?\nA:",
    "Dear neighbour,\n\nyour cat has again",
    "In the year 1873 the first train reached the valley, and with it",
    "1, 1, 2, 3, 5, 8, 13,",
    "Der Bahnhof war leer, als",
    "def mean(values):\n    \"\"\"Returns the arithmetic mean.\"\"\"\n",
    "The three rules of our chess club are as follows.\n1.",
    "She opened the letter slowly. It said:",
    "| city | country |\n|---|---|\n| Lisbon |",
    "To repair a flat bicycle tyre, first",
    "Une petite fille marchait le long de la",
    "<html>\n<head><title>Bird songs</title></head>\n<body>\n",
    "Compare tea with coffee in three sentences.",
    "Weather report: rain in the north,",
    "SELECT name, age FROM members WHERE",
    "\u{201c}Never trust a map drawn from memory,\u{201d} said the old captain,",
    "Photosynthesis",
];

/// Prose of about a thousand words, for perplexity and for the importance matrix.
pub const PROSE: &str = include_str!("prose.txt");
