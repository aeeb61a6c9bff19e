"""Strings that match, or almost match, the patterns, separators and words of a model."""

from functools import partial

from tests.verification.wrong.case import Wrong, replaced, wrong

_case = partial(wrong, "strings")
_part = partial(replaced, "strings")
_MATCHES = "(string[N] x) => (bool[N] y)"
_WORDS = "(string[N] x) => (string[M] y)"
_LABELS = "(string[N] x) => (int64[N] y)"
_PARTS = "(string[N] x) => (string[N,P] y, int64[N] n)"
_BAG = """y = TfIdfVectorizer <mode = "TF", min_gram_length = 1, max_gram_length = 2,
max_skip_count = {skip}, ngram_counts = [0, 2], ngram_indexes = [0, 1, 2],
pool_strings = {pool}> (x)"""


def _pattern(name: str, why: str, right: str, changed: str, text: str) -> Wrong:
    """A RegexFullMatch, and one with another pattern."""
    return _part(
        name, why, _MATCHES, 'y = RegexFullMatch <pattern = "@"> (x)', right, changed, x=[text]
    )


CASES = [
    _pattern(
        "dot_of_a_domain",
        "The dot of an address matches any character",
        "[a-z]+@[a-z]+[.]com",
        "[a-z]+@[a-z]+.com",
        "me@herexcom",
    ),
    _pattern(
        "digits_of_a_month",
        "A month of one digit is accepted in a date",
        "[0-9]{4}-[0-9]{2}-[0-9]{2}",
        "[0-9]{4}-[0-9]{1,2}-[0-9]{2}",
        "2026-1-12",
    ),
    _pattern(
        "third_alternative",
        "The third of three alternatives is lost",
        "yes|no|maybe",
        "yes|no",
        "maybe",
    ),
    _pattern(
        "sign_of_a_number",
        "The sign of a number is not optional any more",
        "-?[0-9]+([.][0-9]+)?",
        "[0-9]+([.][0-9]+)?",
        "-12.5",
    ),
    _pattern(
        "upper_case_identifier",
        "Upper-case letters in an identifier do not match",
        "[A-Za-z_][A-Za-z0-9_]*",
        "[a-z_][a-z0-9_]*",
        "Conv_1",
    ),
    _pattern(
        "host_of_a_url",
        "Encrypted addresses do not match",
        "https?://.+",
        "http://.+",
        "https://example.org",
    ),
    _part(
        "normalized_case",
        "Words become lower case; they become upper case",
        "(string[N] x) => (string[N] y)",
        """y = StringNormalizer <case_change_action = "@", locale = "C"> (x)""",
        "LOWER",
        "UPPER",
        x=["Hello"],
    ),
    _part(
        "stop_words_with_case",
        "The stop word 'the' is dropped in any case; it is dropped in lower case only",
        _WORDS,
        """y = StringNormalizer <is_case_sensitive = @, stopwords = ["the", "of"],
        locale = "C"> (x)""",
        "0",
        "1",
        x=["The", "end"],
    ),
    _part(
        "third_stop_word",
        "The third of three stop words stays",
        _WORDS,
        'y = StringNormalizer <is_case_sensitive = 1, stopwords = ["a", "an"@]> (x)',
        ', "of"',
        "",
        x=["out", "of", "range"],
    ),
    _case(
        "nothing_but_stop_words",
        "A StringNormalizer that drops all words gives one empty string; a Compress gives none",
        _WORDS,
        'y = StringNormalizer <is_case_sensitive = 1, stopwords = ["um"]> (x)',
        """<string word = {"um"}> e = Equal(x, word) n = Not(e) y = Compress(x, n)""",
        x=["um", "um"],
    ),
    _part(
        "label_of_one_word",
        "The label of 'negative' is 1 in place of -1",
        _LABELS,
        """y = ai.onnx.ml.LabelEncoder <keys_strings = ["positive", "neutral", "negative"],
        values_int64s = [1, 0, @], default_int64 = -9> (x)""",
        "-1",
        "1",
        x=["negative"],
    ),
    _part(
        "default_of_words",
        "Words out of the vocabulary get the label of <unk>, 3; they get 0",
        _LABELS,
        """y = ai.onnx.ml.LabelEncoder <keys_strings = ["<s>", "</s>", "<unk>"],
        values_int64s = [1, 2, 3], default_int64 = @> (x)""",
        "3",
        "0",
        x=["word"],
    ),
    _part(
        "word_with_a_marker",
        "The word with a marker of its start, '_new', is another one than 'new'",
        _LABELS,
        """y = ai.onnx.ml.LabelEncoder <keys_strings = ["new", "@", "york"],
        values_int64s = [5, 6, 7], default_int64 = -1> (x)""",
        "_new",
        "New",
        x=["_new"],
    ),
    _part(
        "word_of_a_label",
        "The label 2 is 'bird' in place of 'fish'",
        "(int64[N] x) => (string[N] y)",
        """y = ai.onnx.ml.LabelEncoder <keys_int64s = [0, 1, 2],
        values_strings = ["cat", "dog", "@"], default_string = "none"> (x)""",
        "fish",
        "bird",
        x=[2],
    ),
    _part(
        "comma_and_space",
        "A list is split at ', '; it is split at commas",
        _PARTS,
        """y, n = StringSplit <delimiter = "@"> (x)""",
        ", ",
        ",",
        x=["a,b, c"],
    ),
    _part(
        "spaces_in_a_row",
        "Words are split at any white space; they are split at each space",
        _PARTS,
        "y, n = StringSplit@ (x)",
        "",
        ' <delimiter = " ">',
        x=["a  b"],
    ),
    _part(
        "value_with_an_equals_sign",
        "'key=value' is split once; it is split at each sign",
        _PARTS,
        """y, n = StringSplit <delimiter = "="@> (x)""",
        ", maxsplit = 1",
        "",
        x=["mode=a=b"],
    ),
    _part(
        "third_colon",
        "A time stamp is split twice; it is split once",
        _PARTS,
        """y, n = StringSplit <delimiter = ":", maxsplit = @> (x)""",
        "2",
        "1",
        x=["12:30:59:01"],
    ),
    _part(
        "suffix_before_the_word",
        "A suffix is appended; it is put in front",
        """(string[N] x) => (string[N] y) <string end = {"</w>"}>""",
        "y = StringConcat(@)",
        "x, end",
        "end, x",
        x=["low"],
    ),
    _part(
        "category_of_green",
        "The category 'green' is mapped to 4 in place of 2",
        _LABELS,
        """y = ai.onnx.ml.CategoryMapper <cats_strings = ["red", "green", "blue"],
        cats_int64s = [1, @, 3], default_int64 = -1> (x)""",
        "2",
        "4",
        x=["green"],
    ),
    _part(
        "pair_of_words",
        "The pair 'new york' of a TfIdfVectorizer becomes 'york new'",
        "(string[T] x) => (float[3] y)",
        _BAG.format(skip=0, pool='["new", "york", @]'),
        '"new", "york"',
        '"york", "new"',
        x=["new", "york"],
    ),
    _part(
        "pair_with_a_word_between",
        "A pair of words counts with one word between; it does not",
        "(string[T] x) => (float[3] y)",
        _BAG.format(skip="@", pool='["not", "good", "not", "good"]'),
        "1",
        "0",
        x=["not", "so", "good"],
    ),
    _part(
        "command_of_two_words",
        "The commands 'stop' and 'quit' end a turn; 'quit' does not",
        """(string[N] x) => (bool[N] y) <string first = {"stop"}, string second = {"quit"}>
        """,
        "a = Equal(x, first) b = Equal(x, @) y = Or(a, b)",
        "second",
        "first",
        x=["quit"],
    ),
    _part(
        "comparison_of_lower_case",
        "A unit is compared in lower case; it is compared as it is",
        """(string[N] x) => (bool[N] y) <string unit = {"kg"}>""",
        """l = StringNormalizer <case_change_action = "LOWER", locale = "C"> (x)
        y = Equal(@, unit)""",
        "l",
        "x",
        x=["KG"],
    ),
    _part(
        "rate_of_a_currency",
        "Amounts in 'JPY' are divided by 150; they are divided by 100",
        """(string[N] x, float[N] amount) => (float[N] y) <string yen = {"JPY"}, float one = {1},
        float rate = {150}, float other = {100}>""",
        "c = Equal(x, yen) r = Where(c, @, one) y = Div(amount, r)",
        "rate",
        "other",
        x=["JPY"],
        amount=[300],
    ),
    _part(
        "vocabulary_in_order",
        "Distinct words in the order of their first occurrence become sorted",
        _WORDS,
        "y = Unique <sorted = @> (x)",
        "0",
        "1",
        x=["b", "a"],
    ),
    _part(
        "words_joined_with_a_space",
        "Two words are joined with a space; they are joined with a hyphen where both are words",
        """(string[N] x, string[N] z) => (string[N] y) <string space = {" "}, string hyphen = {"-"},
        string none = {""}>""",
        """e = Equal(x, none) f = Equal(z, none) o = Or(e, f) s = Where(o, none, @)
        a = StringConcat(x, s) y = StringConcat(a, z)""",
        "space",
        "hyphen",
        x=["ice"],
        z=["cream"],
    ),
    _part(
        "extension_of_a_file",
        "The last part of a name of two parts is compared with 'png'; the first one is",
        """(string[N] x) => (bool[N] y) <string kind = {"png"}, int64 last = {-1},
        int64 first = {0}>
        """,
        """p, n = StringSplit <delimiter = "."> (x) g = Gather <axis = 1> (p, @)
        y = Equal(g, kind)""",
        "last",
        "first",
        x=["plot.png"],
    ),
    _part(
        "one_hot_of_a_word",
        "The columns of 'cat' and 'dog' are swapped in a OneHotEncoder",
        "(string[N] x) => (float[N,3] y)",
        "y = ai.onnx.ml.OneHotEncoder <cats_strings = [@], zeros = 1> (x)",
        '"cat", "dog", "fish"',
        '"dog", "cat", "fish"',
        x=["cat"],
    ),
]
