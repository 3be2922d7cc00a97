#pragma once
// Text that knows of each byte whether the template or a user wrote it. Python's view of it is a sequence of code points.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/heap.h"

namespace lamina::jinja {

/// A view: bytes (valid UTF-8) and flips lie in a heap, in the template or in the inputs, which outlive it.
struct Text {
  std::string_view bytes{};
  std::span<const uint32_t> flips{};  // ascending offsets inside `bytes` where the origin changes
  bool user = false;                  // whether a user wrote the first byte
  bool markup = false;                // made by the filter `safe` or `escape`: escapes what it is joined with
  mutable int64_t points = -1;        // code points, once counted

  bool ascii() const { return code_points() == static_cast<int64_t>(bytes.size()); }
  int64_t code_points() const;
  /// Offset of a code point, 0 <= index <= code_points().
  size_t offset_of(int64_t index) const;
  /// Index of the code point that begins at a byte.
  int64_t index_at(size_t offset) const;
};

inline Text plain_text(std::string_view bytes) { return {.bytes = bytes}; }
/// Bytes [begin, end) on character boundaries; keeps origins and markup.
Text slice(Heap& heap, const Text& text, size_t begin, size_t end);

/// Joins texts; origins go along.
class TextBuilder {
 public:
  void add(std::string_view bytes, bool user = false);
  void add(const Text& text) { add(text, 0, text.bytes.size()); }
  /// The bytes [begin, end) of `text`.
  void add(const Text& text, size_t begin, size_t end);
  /// What becomes of the byte at `offset` of `text`, with its origin.
  void add_instead(const Text& text, size_t offset, std::string_view bytes) { add(bytes, user_at(text, offset)); }

  static bool user_at(const Text& text, size_t offset);
  size_t size() const { return bytes_.size(); }
  const std::string& bytes() const { return bytes_; }
  Text finish(Heap& heap, bool markup = false) const;

  struct Run {
    std::string_view bytes;
    bool user;
  };
  /// The maximal pieces of one origin, in order. Views this builder.
  std::vector<Run> runs() const;

 private:
  std::string bytes_;
  std::vector<uint32_t> flips_;
  bool user_ = false;
};

}  // namespace lamina::jinja
