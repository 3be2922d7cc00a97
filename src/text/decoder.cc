#include "text/decoder.h"

#include <optional>

#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/class_patterns.h"

namespace lamina::text {
namespace {

void append_replaced(std::string& out, std::string_view text, std::string_view from, std::string_view to) {
  size_t pos = 0;
  for (size_t at = text.find(from); at != std::string_view::npos; at = text.find(from, pos)) {
    out += text.substr(pos, at - pos);
    out += to;
    pos = at + from.size();
  }
  out += text.substr(pos);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

/// The byte that a token <0xNN> stands for.
std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const int high = hex_digit(token[3]), low = hex_digit(token[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high << 4 | low);
}

Result<std::string> parse_character(const JsonNode& node, std::string_view key) {
  LAMINA_ASSIGN(const std::string text, node.string(key));
  size_t pos = 0;
  if (!text.empty()) next_code_point(text, pos);
  if (text.empty() || pos != text.size()) return node.fail(key, " must be one character, not \"", text, "\"");
  return text;
}

}  // namespace

Decoder::Decoder() : steps_{Step{.kind = Kind::kJoin}} {}

Result<Decoder> Decoder::parse(const JsonNode& node) {
  Decoder decoder;
  decoder.steps_.clear();
  LAMINA_TRY(decoder.parse_into(node, 0));
  return decoder;
}

Status Decoder::parse_into(const JsonNode& node, int depth) {
  LAMINA_ASSIGN(const std::string type, node.type());
  if (type == "Sequence") {
    if (depth > kMaxNesting) return node.fail("sequences are nested too deeply");
    LAMINA_ASSIGN(const std::vector<JsonNode> items, node.array("decoders"));
    for (const JsonNode& item : items) LAMINA_TRY(parse_into(item, depth + 1));
    return {};
  }
  LAMINA_TRY(check_order(node, type));
  Step step{.kind = Kind::kJoin};
  if (type == "ByteLevel") {
    step.kind = Kind::kByteLevel;
  } else if (type == "ByteFallback") {
    step.kind = Kind::kByteFallback;
  } else if (type == "Fuse") {
    fused_ = true;
    return {};
  } else if (type == "Replace") {
    step.kind = Kind::kReplace;
    LAMINA_ASSIGN(const JsonNode pattern, node.child("pattern"));
    LAMINA_ASSIGN(step.pattern, pattern.string("String"));
    if (step.pattern.empty()) return pattern.fail("String must not be empty");
    LAMINA_ASSIGN(step.content, node.string("content"));
  } else if (type == "Strip") {
    step.kind = Kind::kStrip;
    step.fused = fused_;
    LAMINA_ASSIGN(step.pattern, parse_character(node, "content"));
    LAMINA_ASSIGN(const int64_t start, node.integer("start", 0, 1 << 20));
    LAMINA_ASSIGN(const int64_t stop, node.integer("stop", 0, 1 << 20));
    if (stop != 0) return node.fail("stop must be 0, not ", stop);
    step.count = static_cast<size_t>(start);
  } else if (type == "Metaspace") {
    step.kind = Kind::kMetaspace;
    LAMINA_ASSIGN(step.pattern, parse_character(node, "replacement"));
    LAMINA_ASSIGN(const bool prefix_space, node.boolean_or("add_prefix_space", true));
    LAMINA_ASSIGN(const std::string scheme, node.string_or("prepend_scheme", prefix_space ? "always" : "never"));
    step.drop_first = scheme != "never";
  } else if (type == "BPEDecoder") {
    step.kind = Kind::kBpe;
    LAMINA_ASSIGN(step.pattern, node.string_or("suffix", "</w>"));
    if (step.pattern.empty()) return node.fail("suffix must not be empty");
  } else {
    return node.fail("the decoder \"", type, "\" is not supported");
  }
  steps_.push_back(std::move(step));
  return {};
}

// A step that looks at whole tokens cannot follow one that joins them.
Status Decoder::check_order(const JsonNode& node, std::string_view type) const {
  if (!steps_.empty() && steps_.back().kind == Kind::kByteLevel)
    return node.fail("the decoder \"", type, "\" after ByteLevel is not supported");
  if (fused_ && type != "Strip") return node.fail("the decoder \"", type, "\" after Fuse is not supported");
  return {};
}

DecodeState Decoder::start() const { return DecodeState{std::vector<DecodeState::Step>(steps_.size())}; }

void Decoder::feed(DecodeState& state, std::string_view token, std::string& out) const { run(0, state, token, out); }

void Decoder::flush(DecodeState& state, std::string& out) const {
  for (size_t i = 0; i < steps_.size(); ++i) {
    release(i, state, true, out);
    state.steps[i].seen = 0;
    state.steps[i].done = false;
  }
}

std::string Decoder::bytes(std::string_view token) const {
  std::string text(token);
  for (const Step& step : steps_) {
    std::string next;
    switch (step.kind) {
      case Kind::kByteLevel:
        append_unspelled_bytes(next, text);
        break;
      case Kind::kByteFallback:
        if (const std::optional<char> byte = fallback_byte(text)) return std::string(1, *byte);
        continue;
      case Kind::kReplace:
        append_replaced(next, text, step.pattern, step.content);
        break;
      case Kind::kMetaspace:
      case Kind::kBpe:
        append_replaced(next, text, step.pattern, " ");
        break;
      case Kind::kStrip:  // removes what stands at the start of a text
      case Kind::kJoin:
        continue;
    }
    text = std::move(next);
  }
  return text;
}

void Decoder::run(size_t index, DecodeState& state, std::string_view token, std::string& out) const {
  if (index == steps_.size()) {
    out += token;
    return;
  }
  const Step& step = steps_[index];
  DecodeState::Step& mine = state.steps[index];
  mine.buffer.clear();
  switch (step.kind) {
    case Kind::kByteLevel:
      append_unspelled_bytes(mine.held, token);
      release(index, state, false, out);
      return;
    case Kind::kByteFallback:
      if (const std::optional<char> byte = fallback_byte(token)) {
        mine.held += *byte;
        return;
      }
      release(index, state, false, out);
      return run(index + 1, state, token, out);
    case Kind::kReplace:
      append_replaced(mine.buffer, token, step.pattern, step.content);
      break;
    case Kind::kMetaspace:
      append_replaced(mine.buffer, token, step.pattern, mine.seen++ == 0 && step.drop_first ? "" : " ");
      break;
    case Kind::kJoin:
      if (mine.seen++ > 0) mine.buffer += ' ';
      mine.buffer += token;
      break;
    case Kind::kBpe:
      release(index, state, false, out);
      mine.held = token;
      mine.holding = true;
      return;
    case Kind::kStrip:
      return run_strip(index, state, token, out);
  }
  run(index + 1, state, mine.buffer, out);
}

void Decoder::run_strip(size_t index, DecodeState& state, std::string_view token, std::string& out) const {
  const Step& step = steps_[index];
  DecodeState::Step& mine = state.steps[index];
  if (!step.fused) {
    mine.seen = 0;
    mine.done = false;
  }
  while (!mine.done && mine.seen < step.count && token.starts_with(step.pattern)) {
    token.remove_prefix(step.pattern.size());
    ++mine.seen;
  }
  if (!token.empty()) mine.done = true;
  run(index + 1, state, token, out);
}

/// Hands on what the step held, as far as it is settled; all of it when no token follows.
void Decoder::release(size_t index, DecodeState& state, bool last, std::string& out) const {
  const Step& step = steps_[index];
  DecodeState::Step& mine = state.steps[index];
  mine.buffer.clear();
  if (step.kind == Kind::kByteLevel) {
    const size_t settled = last ? mine.held.size() : mine.held.size() - incomplete_utf8_tail(mine.held);
    mine.buffer = to_valid_utf8(std::string_view(mine.held).substr(0, settled));
    mine.held.erase(0, settled);
    run(index + 1, state, mine.buffer, out);
  } else if (step.kind == Kind::kBpe && mine.holding) {
    append_replaced(mine.buffer, mine.held, step.pattern, last ? "" : " ");
    mine.holding = false;
    run(index + 1, state, mine.buffer, out);
  } else if (step.kind == Kind::kByteFallback && !mine.held.empty()) {
    mine.buffer.swap(mine.held);
    mine.held.clear();
    if (is_valid_utf8(mine.buffer)) return run(index + 1, state, mine.buffer, out);
    for (size_t i = 0; i < mine.buffer.size(); ++i) run(index + 1, state, "\uFFFD", out);
  }
}

}  // namespace lamina::text
