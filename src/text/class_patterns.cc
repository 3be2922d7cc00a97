#include "text/class_patterns.h"

#include "base/check.h"
#include "base/strings.h"

namespace lamina::text {
namespace {

// The library's tables of marks and punctuation are those of Unicode 8; these code points came later or changed since. The patterns made of
// them name code points, so they look at the plain text.
constexpr std::string_view kLaterMarks =
    "\\x{7fd}\\x{897}-\\x{89f}\\x{8ca}-\\x{8d3}\\x{9fe}\\x{afa}-\\x{aff}\\x{b55}\\x{c04}\\x{c3c}\\x{cf3}\\x{d00}"
    "\\x{d3b}-\\x{d3c}\\x{d81}\\x{eba}\\x{ece}\\x{1715}\\x{180f}\\x{1abf}-\\x{1ace}\\x{1cf7}\\x{1df6}-\\x{1dfa}\\x{a82c}"
    "\\x{a8ff}\\x{10d24}-\\x{10d27}\\x{10d69}-\\x{10d6d}\\x{10eab}-\\x{10eac}\\x{10efc}-\\x{10eff}\\x{10f46}-\\x{10f50}"
    "\\x{10f82}-\\x{10f85}\\x{11070}\\x{11073}-\\x{11074}\\x{110c2}\\x{11145}-\\x{11146}\\x{111c9}\\x{111ce}-\\x{111cf}"
    "\\x{11241}\\x{1133b}\\x{113b8}-\\x{113c0}\\x{113c2}\\x{113c5}\\x{113c7}-\\x{113ca}\\x{113cc}-\\x{113d0}\\x{113d2}"
    "\\x{113e1}-\\x{113e2}\\x{1145e}\\x{1182c}-\\x{1183a}\\x{11930}-\\x{11935}\\x{11937}-\\x{11938}\\x{1193b}-\\x{1193e}"
    "\\x{11940}\\x{11942}-\\x{11943}\\x{119d1}-\\x{119d7}\\x{119da}-\\x{119e0}\\x{119e4}\\x{11a01}-\\x{11a0a}"
    "\\x{11a33}-\\x{11a39}\\x{11a3b}-\\x{11a3e}\\x{11a47}\\x{11a51}-\\x{11a5b}\\x{11a8a}-\\x{11a99}\\x{11d31}-\\x{11d36}"
    "\\x{11d3a}\\x{11d3c}-\\x{11d3d}\\x{11d3f}-\\x{11d45}\\x{11d47}\\x{11d8a}-\\x{11d8e}\\x{11d90}-\\x{11d91}"
    "\\x{11d93}-\\x{11d97}\\x{11ef3}-\\x{11ef6}\\x{11f00}-\\x{11f01}\\x{11f03}\\x{11f34}-\\x{11f3a}\\x{11f3e}-\\x{11f42}"
    "\\x{11f5a}\\x{13440}\\x{13447}-\\x{13455}\\x{1611e}-\\x{1612f}\\x{16f4f}\\x{16f7f}-\\x{16f87}\\x{16fe4}"
    "\\x{16ff0}-\\x{16ff1}\\x{1cf00}-\\x{1cf2d}\\x{1cf30}-\\x{1cf46}\\x{1e08f}\\x{1e130}-\\x{1e136}\\x{1e2ae}"
    "\\x{1e2ec}-\\x{1e2ef}\\x{1e4ec}-\\x{1e4ef}\\x{1e5ee}-\\x{1e5ef}";
constexpr std::string_view kLaterPunctuation =
    "\\x{61d}\\x{9fd}\\x{a76}\\x{c77}\\x{c84}\\x{1b4e}-\\x{1b4f}\\x{1b7d}-\\x{1b7f}\\x{2e43}-\\x{2e4f}\\x{2e52}-\\x{2e5d}"
    "\\x{10d6e}\\x{10ead}\\x{10f55}-\\x{10f59}\\x{10f86}-\\x{10f89}\\x{113d4}-\\x{113d5}\\x{113d7}-\\x{113d8}"
    "\\x{1144b}-\\x{1144f}\\x{1145a}-\\x{1145b}\\x{1145d}\\x{11660}-\\x{1166c}\\x{116b9}\\x{1183b}\\x{11944}-\\x{11946}"
    "\\x{119e2}\\x{11a3f}-\\x{11a46}\\x{11a9a}-\\x{11a9c}\\x{11a9e}-\\x{11aa2}\\x{11b00}-\\x{11b09}\\x{11be1}"
    "\\x{11c41}-\\x{11c45}\\x{11c70}-\\x{11c71}\\x{11ef7}-\\x{11ef8}\\x{11f43}-\\x{11f4f}\\x{11fff}\\x{12ff1}-\\x{12ff2}"
    "\\x{16d6d}-\\x{16d6f}\\x{16e97}-\\x{16e9a}\\x{16fe2}\\x{1e5ff}\\x{1e95e}-\\x{1e95f}";

Pattern known_good(std::string_view regex) {
  Result<Pattern> pattern = Pattern::regex(regex);
  LAMINA_CHECK(pattern.ok(), "a pattern of our own does not compile");
  return std::move(pattern).value();
}

}  // namespace

Pattern mark_pattern() { return known_good(cat("(?![", kLaterMarks, "])\\p{M}|[\\x{1cf2}-\\x{1cf3}]")).on_plain_text(); }

Pattern number_pattern() { return known_good("[\\p{N}\\x{11de0}-\\x{11de9}\\x{16ff4}-\\x{16ff6}]"); }  // of Unicode 17

Pattern punctuation_pattern() {
  return known_good(cat("(?![", kLaterPunctuation, "])[\\p{P}$+<=>^`|~]|[\\x{166d}\\x{111c9}]")).on_plain_text();
}

// Unlike in the regular expressions of a file, here the joiners are word characters and seven Latin-1 numbers are not.
Pattern words_pattern() {
  return known_good(
      "(?:(?![\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}])[\\w\\x{200c}\\x{200d}])+|(?:[^\\w\\s\\x{200c}\\x{200d}]|[\\x{b2}\\x{b3}\\x{b9}\\x{bc}-"
      "\\x{be}])+");
}

Pattern gpt2_pattern() { return known_good("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"); }

}  // namespace lamina::text
