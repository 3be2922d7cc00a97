#include "text/jinja/marked_text.h"

#include <algorithm>

namespace lamina::jinja {
namespace {

bool begins_character(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; }

}  // namespace

int64_t Text::code_points() const {
  if (points < 0) points = std::count_if(bytes.begin(), bytes.end(), begins_character);
  return points;
}

size_t Text::offset_of(int64_t index) const {
  if (ascii()) return static_cast<size_t>(index);
  size_t offset = 0;
  for (; offset < bytes.size(); ++offset) {
    if (begins_character(bytes[offset]) && index-- == 0) break;
  }
  return offset;
}

int64_t Text::index_at(size_t offset) const {
  if (ascii()) return static_cast<int64_t>(offset);
  return std::count_if(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(offset), begins_character);
}

Text slice(Heap& heap, const Text& text, size_t begin, size_t end) {
  Text part{.bytes = text.bytes.substr(begin, end - begin), .user = TextBuilder::user_at(text, begin), .markup = text.markup};
  const auto first = std::upper_bound(text.flips.begin(), text.flips.end(), begin);
  const auto last = std::lower_bound(first, text.flips.end(), end);
  if (first == last) return part;
  std::vector<uint32_t> flips(first, last);
  for (uint32_t& flip : flips) flip -= static_cast<uint32_t>(begin);
  part.flips = heap.copy(std::span<const uint32_t>(flips));
  return part;
}

bool TextBuilder::user_at(const Text& text, size_t offset) {
  const auto passed = std::upper_bound(text.flips.begin(), text.flips.end(), offset) - text.flips.begin();
  return text.user != (passed % 2 == 1);
}

void TextBuilder::add(std::string_view bytes, bool user) {
  if (bytes.empty()) return;
  if (bytes_.empty()) {
    user_ = user;
  } else if (user != (user_ != (flips_.size() % 2 == 1))) {
    flips_.push_back(static_cast<uint32_t>(bytes_.size()));
  }
  bytes_ += bytes;
}

void TextBuilder::add(const Text& text, size_t begin, size_t end) {
  if (text.flips.empty()) return add(text.bytes.substr(begin, end - begin), text.user);
  auto flip = std::upper_bound(text.flips.begin(), text.flips.end(), begin);
  for (bool user = user_at(text, begin); begin < end; user = !user) {
    const size_t stop = flip == text.flips.end() ? end : std::min<size_t>(*flip++, end);
    add(text.bytes.substr(begin, stop - begin), user);
    begin = stop;
  }
}

Text TextBuilder::finish(Heap& heap, bool markup) const {
  return {.bytes = heap.copy(bytes_), .flips = heap.copy(std::span<const uint32_t>(flips_)), .user = user_, .markup = markup};
}

std::vector<TextBuilder::Run> TextBuilder::runs() const {
  std::vector<Run> runs;
  size_t begin = 0;
  bool user = user_;
  for (size_t i = 0; begin < bytes_.size(); ++i, user = !user) {
    const size_t end = i < flips_.size() ? flips_[i] : bytes_.size();
    runs.push_back({std::string_view(bytes_).substr(begin, end - begin), user});
    begin = end;
  }
  return runs;
}

}  // namespace lamina::jinja
