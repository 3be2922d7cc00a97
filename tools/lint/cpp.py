"""Reads C++ just well enough for lint: blanks comments and literals, lists includes and finds function bodies."""
import bisect
import re
from dataclasses import dataclass

_SKIPPED = re.compile(
    r"//(?:\\\n|[^\n])*|/\*.*?\*/"  # comments
    r'|R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)"'  # raw strings
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",  # not the separators of 1'000
    re.S,
)
_PREPROCESSOR = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.M)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)[">]', re.M)
_NOT_NAMES = re.compile(r"\b(?:alignas|decltype|explicit|requires|noexcept|sizeof|__attribute__)\s*\(")
_SCOPE = re.compile(r"(?:inline\s+)?(?:namespace|class|struct|union|enum|extern)\b")


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


def comments(text):
    """(line, comment) of each comment."""
    for match in _SKIPPED.finditer(text):
        if match.group().startswith(("//", "/*")):
            yield text.count("\n", 0, match.start()) + 1, match.group()


def code_only(text):
    """The text with comments and the insides of literals blanked; every line keeps its number."""
    return _SKIPPED.sub(lambda m: _blank(m.group()) if m.group()[0] == "/" else '"' + _blank(m.group()[1:-1]) + '"', text)


def includes(text):
    """(line, '"' or '<', path) of each #include."""
    for match in _INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1), match.group(2)


@dataclass
class Function:
    name: str
    line: int
    lines: int
    parameters: int


def _close(code, begin, pair):
    """Index of the bracket that closes the one at `begin`, or the end of the text."""
    depth = 0
    for i in range(begin, len(code)):
        depth += (code[i] == pair[0]) - (code[i] == pair[1])
        if depth == 0:
            return i
    return len(code)


def _strip_template(head):
    head = re.sub(r"^\s*(?:(?:public|private|protected)\s*:|\[\[[^\]]*\]\])", "", head).strip()
    while head.startswith("template"):
        head = head[_close(head, head.index("<"), "<>") + 1 :].strip() if "<" in head else head[8:]
    return re.sub(r"^requires\b.*?(?=\b(?:class|struct)\b)", "", head, flags=re.S)


def _signature(head):
    """(name, parameter list, rest) when `head`, the text before an opening brace, declares a function; else None."""
    head = _strip_template(head)
    if _SCOPE.match(head):
        return None
    plain = _NOT_NAMES.sub(lambda m: " " * (m.end() - m.start() - 1) + "(", head)
    match = re.search(r"(operator\s*\(\s*\)|operator[^(]+|[\w:~]+(?:<[^()]*>)?)\s*\(", plain)
    if not match or "=" in re.sub(r"operator\S+", "", plain[: match.start()]):
        return None
    begin = match.end() - 1
    end = _close(plain, begin, "()")
    return match.group(1).strip(), plain[begin + 1 : end], plain[end + 1 :]


def _count_parameters(text):
    if text.strip() in ("", "void"):
        return 0
    depth = commas = 0
    for i, char in enumerate(text):
        depth += (char in "(<[{") - (char in ")]}" or (char == ">" and text[i - 1] != "-"))
        commas += char == "," and depth == 0
    return commas + 1


def _is_member_initialiser(rest, before):
    return re.search(r"(?<!:):(?!:)", rest) is not None and before not in ")}"


def functions(text):
    """The function bodies at namespace and class scope; lambdas and local classes count as part of theirs."""
    code = _PREPROCESSOR.sub(lambda m: _blank(m.group()), code_only(text))
    starts = [0] + [m.end() for m in re.finditer("\n", code)]
    line_of = lambda at: bisect.bisect_right(starts, at)
    found, head_at, i = [], 0, 0
    while i < len(code):
        if code[i] == "(":
            i = _close(code, i, "()")
        elif code[i] in ";}":
            head_at = i + 1
        elif code[i] == "{":
            head = code[head_at:i]
            signature = _signature(head)
            if signature and not _is_member_initialiser(signature[2], code[:i].rstrip()[-1:]):
                end = _close(code, i, "{}")
                first = line_of(head_at + len(head) - len(head.lstrip()))
                name = signature[0] + (f"({signature[1]})" if signature[0].startswith("TEST") else "")
                found.append(Function(name, first, line_of(end) - first + 1, _count_parameters(signature[1])))
                i, head_at = end, end + 1
            elif signature or not _SCOPE.match(_strip_template(head)):
                i = _close(code, i, "{}")
            else:
                head_at = i + 1
        i += 1
    return found
