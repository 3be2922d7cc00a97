#pragma once
// Text to text, shared by filters and methods. Origins go along.

#include "text/jinja/native.h"
#include "text/jinja/text_search.h"
#include "text/jinja/unicode_text.h"

namespace lamina::jinja {

/// str.replace(): at most `most` times, any number when negative. Markup makes markup and escapes the other two.
Result<Value> replaced(Runtime& runtime, const Text& text, const Text& old, const Text& with, int64_t most);
/// str.strip(), lstrip(), rstrip(); white space when `characters` is null.
Value strip(Runtime& runtime, const Text& text, const Text* characters, bool left, bool right);
/// str.ljust() and kin: `before` and `behind` are how many of `fill` go there.
Result<Value> padded(Runtime& runtime, const Text& text, std::string_view fill, int64_t before, int64_t behind);
/// with_case() as a value, its work counted.
Value in_case(Runtime& runtime, const Text& text, Case wanted);
/// str.center().
Result<Value> centered(Runtime& runtime, const Text& text, int64_t width, std::string_view fill);
/// separator.join() of the items' str().
Result<Value> joined(Runtime& runtime, const Text& separator, std::span<const Value> items);
/// The pieces of `text` as a list.
Result<Value> list_of_pieces(Runtime& runtime, const Text& text, std::span<const Piece> pieces);

}  // namespace lamina::jinja
