#include "text/normalizer.h"

#include "base/utf8.h"
#include "text/class_patterns.h"
#include "text/unicode_class.h"
#include "text/unicode_forms.h"
#include "text/unicode_shadow.h"

namespace lamina::text {
namespace {

std::string_view strip(std::string_view text, bool left, bool right) {
  size_t begin = 0, end = 0;  // of the part without white space around it
  bool any = false;
  for (size_t pos = 0; pos < text.size();) {
    const size_t start = pos;
    if (is_white_space(next_code_point(text, pos))) continue;
    if (!any) begin = start;
    any = true;
    end = pos;
  }
  if (!left) begin = 0;
  if (!right) end = text.size();
  if (!any) return left || right ? text.substr(0, 0) : text;
  return text.substr(begin, end - begin);
}

}  // namespace

Result<Pattern> parse_pattern(const JsonNode& node, std::string_view key) {
  LAMINA_ASSIGN(const JsonNode pattern, node.child(key));
  if (pattern.has("String")) {
    LAMINA_ASSIGN(const std::string text, pattern.string("String"));
    return Pattern::literal(text);
  }
  if (!pattern.has("Regex")) return pattern.fail("expected {\"String\": ...} or {\"Regex\": ...}");
  LAMINA_ASSIGN(const std::string text, pattern.string("Regex"));
  Result<Pattern> regex = Pattern::regex(text);
  if (!regex.ok()) return pattern.fail(regex.error().message);
  return regex;
}

Result<Normalizer> Normalizer::parse(const JsonNode& node) {
  Normalizer normalizer;
  LAMINA_TRY(normalizer.parse_into(node, 0));
  return normalizer;
}

Status Normalizer::parse_into(const JsonNode& node, int depth) {
  LAMINA_ASSIGN(const std::string type, node.type());
  if (type == "Sequence") {
    if (depth > kMaxNesting) return node.fail("sequences are nested too deeply");
    LAMINA_ASSIGN(const std::vector<JsonNode> items, node.array("normalizers"));
    for (const JsonNode& item : items) LAMINA_TRY(parse_into(item, depth + 1));
    return {};
  }
  struct Name {
    std::string_view type;
    Kind kind;
  };
  constexpr Name kNames[] = {{"NFC", Kind::kNfc},
                             {"NFD", Kind::kNfd},
                             {"NFKC", Kind::kNfkc},
                             {"NFKD", Kind::kNfkd},
                             {"Lowercase", Kind::kLowercase},
                             {"StripAccents", Kind::kStripAccents},
                             {"Strip", Kind::kStrip},
                             {"Replace", Kind::kReplace},
                             {"Prepend", Kind::kPrepend}};
  for (const Name& name : kNames) {
    if (name.type != type) continue;
    Step step{.kind = name.kind};
    if (step.kind == Kind::kStripAccents) step.pattern = mark_pattern();
    if (step.kind == Kind::kReplace) {
      LAMINA_ASSIGN(step.pattern, parse_pattern(node, "pattern"));
      LAMINA_ASSIGN(step.content, node.string("content"));
    }
    if (step.kind == Kind::kPrepend) {
      LAMINA_ASSIGN(step.content, node.string("prepend"));
    }
    if (step.kind == Kind::kStrip) {
      LAMINA_ASSIGN(step.left, node.boolean_or("strip_left", true));
      LAMINA_ASSIGN(step.right, node.boolean_or("strip_right", true));
    }
    steps_.push_back(std::move(step));
    return {};
  }
  return node.fail("the normalizer \"", type, "\" is not supported");
}

Result<std::string_view> Normalizer::apply(std::string_view text, std::string& buffer, MatchScratch& scratch) const {
  std::string out;
  for (const Step& step : steps_) {
    out.clear();
    LAMINA_ASSIGN(const std::string_view result, run(step, text, out, scratch));
    if (result.data() == out.data()) {
      buffer.swap(out);
      text = std::string_view(buffer).substr(0, result.size());
    } else {
      text = result;
    }
  }
  return text;
}

Result<std::string_view> Normalizer::run(const Step& step, std::string_view text, std::string& out, MatchScratch& scratch) {
  switch (step.kind) {
    case Kind::kNfc:
      return to_unicode_form(text, UnicodeForm::kNfc, out);
    case Kind::kNfd:
      return to_unicode_form(text, UnicodeForm::kNfd, out);
    case Kind::kNfkc:
      return to_unicode_form(text, UnicodeForm::kNfkc, out);
    case Kind::kNfkd:
      return to_unicode_form(text, UnicodeForm::kNfkd, out);
    case Kind::kStrip:
      return strip(text, step.left, step.right);
    case Kind::kLowercase:
      append_lowercase(out, text);
      return std::string_view(out);
    case Kind::kPrepend:
      if (text.empty()) return text;
      out += step.content;
      out += text;
      return std::string_view(out);
    case Kind::kStripAccents:
    case Kind::kReplace:
      break;
  }
  std::string shadow_buffer;
  const Subject subject{text, shadow_of(text, shadow_buffer)};
  LAMINA_TRY(step.pattern.for_each_piece(subject, scratch, [&](size_t begin, size_t end, bool is_match) {
    out += is_match ? step.content : text.substr(begin, end - begin);
  }));
  return std::string_view(out);
}

}  // namespace lamina::text
