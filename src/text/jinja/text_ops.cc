#include "text/jinja/text_ops.h"

#include <algorithm>

#include "text/jinja/print.h"

namespace lamina::jinja {
namespace {

constexpr size_t kNone = std::string_view::npos;

/// replace() of the empty text: `with` before each character and at the end.
Status insert_between(Runtime& runtime, const Text& text, const Text& with, int64_t most, TextBuilder& out) {
  size_t at = 0;
  while (most != 0) {
    out.add(with);
    LAMINA_TRY(runtime.room(static_cast<double>(out.size())));
    if (at == text.bytes.size()) break;
    const size_t next = next_character(text.bytes, at);
    out.add(text, at, next);
    at = next;
    --most;
  }
  out.add(text, at, text.bytes.size());
  return {};
}

}  // namespace

Result<Value> replaced(Runtime& runtime, const Text& text, const Text& old, const Text& with, int64_t most) {
  const Text sought = text.markup ? escaped(runtime.heap(), old) : old;
  const Text instead = text.markup ? escaped(runtime.heap(), with) : with;
  TextBuilder out;
  if (sought.bytes.empty()) {
    LAMINA_TRY(insert_between(runtime, text, instead, most, out));
    return runtime.text(out, text.markup);
  }
  size_t begin = 0;
  for (size_t at = 0; most != 0 && (at = find_bytes(text.bytes, sought.bytes, begin)) != kNone; --most) {
    out.add(text, begin, at);
    out.add(instead);
    LAMINA_TRY(runtime.room(static_cast<double>(out.size())));
    begin = at + sought.bytes.size();
  }
  out.add(text, begin, text.bytes.size());
  runtime.work_bytes(text.bytes.size() + out.size());
  return runtime.text(out, text.markup);
}

Value strip(Runtime& runtime, const Text& text, const Text* characters, bool left, bool right) {
  const Piece rest = stripped(text.bytes, characters == nullptr ? nullptr : &characters->bytes, left, right);
  runtime.work_bytes(text.bytes.size() - (rest.end - rest.begin));
  return runtime.text(slice(runtime.heap(), text, rest.begin, rest.end));
}

Result<Value> padded(Runtime& runtime, const Text& text, std::string_view fill, int64_t before, int64_t behind) {
  before = std::max<int64_t>(before, 0), behind = std::max<int64_t>(behind, 0);
  LAMINA_TRY(runtime.room((static_cast<double>(before) + static_cast<double>(behind)) * static_cast<double>(fill.size())));
  TextBuilder out;
  for (int64_t i = 0; i < before; ++i) out.add(fill);
  out.add(text);
  for (int64_t i = 0; i < behind; ++i) out.add(fill);
  runtime.work_bytes(out.size());
  return runtime.text(out, text.markup);
}

Value in_case(Runtime& runtime, const Text& text, Case wanted) {
  runtime.work_bytes(text.ascii() ? text.bytes.size() : 16 * text.bytes.size());
  return runtime.text(with_case(runtime.heap(), text, wanted));
}

Result<Value> centered(Runtime& runtime, const Text& text, int64_t width, std::string_view fill) {
  const int64_t size = text.code_points(), room = std::max<int64_t>(width, size) - size;
  const int64_t before = room / 2 + (room & width & 1);  // where Python puts the odd one
  return padded(runtime, text, fill, before, room - before);
}

Result<Value> joined(Runtime& runtime, const Text& separator, std::span<const Value> items) {
  TextBuilder out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.add(separator);
    LAMINA_TRY(print(runtime, items[i], out));
    runtime.work_bytes(64 + separator.bytes.size());
    LAMINA_TRY(runtime.room(static_cast<double>(out.size())));
  }
  return runtime.text(out);
}

Result<Value> list_of_pieces(Runtime& runtime, const Text& text, std::span<const Piece> pieces) {
  std::vector<Value> items;
  items.reserve(pieces.size());
  for (const Piece& piece : pieces) items.push_back(runtime.text(slice(runtime.heap(), text, piece.begin, piece.end)));
  runtime.work_bytes(text.bytes.size());
  return runtime.list(items);
}

}  // namespace lamina::jinja
