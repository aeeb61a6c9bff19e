"""Strings of addresses, dates, versions and labels; written without regard to the verification."""

from functools import partial

from tests.verification.wrong.case import replaced, wrong

_case = partial(wrong, "fresh: strings")
_part = partial(replaced, "fresh: strings")
_WORDS = "(string[N] x) => (string[N] y)"
_MATCHES = "(string[N] x) => (bool[N] y)"
_TWO = "(string[N] a, string[N] b) => (string[N] y)"
_OCTET = "(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"

CASES = [
    _part(
        "octets_up_to_255",
        "Octets of an address up to 255 match; those of three digits do",
        _MATCHES,
        'y = RegexFullMatch <pattern = "@"> (x)',
        f"({_OCTET}[.]){{3}}{_OCTET}",
        "([0-9]{1,3}[.]){3}[0-9]{1,3}",
        x=["10.0.0.1", "10.0.0.999"],
    ),
    _part(
        "digits_of_a_colour",
        "A colour has 6 digits; 3 to 6 digits match",
        _MATCHES,
        'y = RegexFullMatch <pattern = "@"> (x)',
        "#[0-9a-fA-F]{6}",
        "#[0-9a-fA-F]{3,6}",
        x=["#ffcc00", "#fc0"],
    ),
    _part(
        "case_of_an_answer",
        "Yes and true match in any case; they match in lower case only",
        _MATCHES,
        'y = RegexFullMatch <pattern = "@"> (x)',
        "(?i)(yes|true|on|1)",
        "(yes|true|on|1)",
        x=["yes", "TRUE", "no"],
    ),
    _case(
        "version_as_a_number",
        "Versions 1.9 and 1.10 are compared by their parts; they are read as one number",
        "(string[N] x) => (int64[N] y) <int64 zero = {0}, int64 one = {1}, float by = {1000}, "
        "float hundred = {100}>",
        """m = RegexFullMatch <pattern = "[0-9][.][0-9][0-9]?"> (x) z = Constant <value_string =
        "0.0"> () w = Where(m, x, z) p, n = StringSplit <delimiter = "."> (w)
        a = Gather <axis = 1> (p, zero) b = Gather <axis = 1> (p, one) c = Cast <to = 1> (a)
        d = Cast <to = 1> (b) e = Mul(c, hundred) f = Add(e, d) y = Cast <to = 7> (f)""",
        """m = RegexFullMatch <pattern = "[0-9][.][0-9][0-9]?"> (x) z = Constant <value_string =
        "0.0"> () w = Where(m, x, z) c = Cast <to = 1> (w) d = Floor(c) g = Sub(c, d)
        h = Mul(g, hundred) r = Round(h) e = Mul(d, hundred) f = Add(e, r)
        y = Cast <to = 7> (f)""",
        x=["1.9", "1.10"],
    ),
    _part(
        "name_of_the_unknown",
        "Empty strings are 'unknown'; they stay",
        f'{_WORDS} <string empty = {{""}}, string unknown = {{"unknown"}}>',
        "c = Equal(x, empty) w = Where(c, unknown, x) y = Identity(@)",
        "w",
        "x",
        x=["a", ""],
    ),
    _case(
        "language_and_region",
        "A language and a region that are equal are written once; they are written twice",
        f'{_TWO} <string dash = {{"-"}}>',
        "c = Equal(a, b) s = StringConcat(a, dash) t = StringConcat(s, b) y = Where(c, a, t)",
        "s = StringConcat(a, dash) y = StringConcat(s, b)",
        a=["de", "en"],
        b=["de", "GB"],
    ),
    _part(
        "complement_of_a_base",
        "The complement of G is C; it is G",
        _WORDS,
        """y = ai.onnx.ml.LabelEncoder <keys_strings = ["A", "C", "G", "T"],
        values_strings = ["T", "G", "@", "A"], default_string = "N"> (x)""",
        "C",
        "G",
        x=["A", "G"],
    ),
    _part(
        "grade_with_a_plus",
        "The grade A+ is 4.3; it is 4.0 like A",
        "(string[N] x) => (float[N] y)",
        """y = ai.onnx.ml.LabelEncoder <keys_strings = ["A+", "A", "B+", "B"],
        values_floats = [@, 4.0, 3.3, 3.0], default_float = 0.0> (x)""",
        "4.3",
        "4.0",
        x=["A+", "B"],
    ),
    _part(
        "minutes_of_a_time",
        "Minutes of a time count one each; they count 10",
        "(string[N] x) => (float[N] y) <int64 zero = {0}, int64 one = {1}, float hour = {60}, "
        "float minute = {1}, float ten = {10}>",
        """m = RegexFullMatch <pattern = "[0-9]{2}:[0-9]{2}"> (x)
        z = Constant <value_string = "00:00"> () w = Where(m, x, z)
        p, n = StringSplit <delimiter = ":"> (w) a = Gather <axis = 1> (p, zero)
        b = Gather <axis = 1> (p, one) c = Cast <to = 1> (a) d = Cast <to = 1> (b)
        e = Mul(c, hour) f = Mul(d, @) y = Add(e, f)""",
        "minute",
        "ten",
        x=["12:30", "noon"],
    ),
    _part(
        "zeros_of_a_postal_code",
        "Postal codes keep leading zeros; they are cast to integers and back",
        f'{_WORDS} <string none = {{"00000"}}>',
        """m = RegexFullMatch <pattern = "[0-9]{5}"> (x) w = Where(m, x, none) i = Cast <to = 7> (w)
        s = Cast <to = 8> (i) y = Identity(@)""",
        "w",
        "s",
        x=["01234", "98765"],
    ),
    _part(
        "words_of_a_line",
        "The number of words does not count spaces in a row; it does",
        "(string[N] x) => (int64[N] y)",
        "p, y = StringSplit@ (x)",
        "",
        ' <delimiter = " ">',
        x=["a  b", "c"],
    ),
    _part(
        "three_words_in_a_row",
        "The trigram 'out of order' counts; 'out of stock' does",
        "(string[N] x) => (float[2] y)",
        """y = TfIdfVectorizer <mode = "TF", min_gram_length = 1, max_gram_length = 3,
        max_skip_count = 0, ngram_counts = [0, 1, 1], ngram_indexes = [0, 1],
        pool_strings = [@]> (x)""",
        '"fine", "out", "of", "order"',
        '"fine", "out", "of", "stock"',
        x=["out", "of", "order"],
    ),
    _case(
        "domain_of_an_address",
        "A further @ belongs to the domain; the domain ends there",
        "(string[N] x) => (string[N] y) <int64 one = {1}>",
        """m = RegexFullMatch <pattern = ".+@.+"> (x) z = Constant <value_string = "a@b"> ()
        w = Where(m, x, z) p, n = StringSplit <delimiter = "@", maxsplit = 1> (w)
        y = Gather <axis = 1> (p, one)""",
        """m = RegexFullMatch <pattern = ".+@.+"> (x) z = Constant <value_string = "a@b"> ()
        w = Where(m, x, z) p, n = StringSplit <delimiter = "@"> (w)
        y = Gather <axis = 1> (p, one)""",
        x=["me@here", "you@there@home"],
    ),
]
