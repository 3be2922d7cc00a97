#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pattern.h"

#include <pcre2.h>

#include <algorithm>

#include "base/check.h"
#include "base/strings.h"
#include "text/oniguruma.h"

namespace lamina::text {
namespace {

// Backtracking that is linear in the text must never hit the limit, exponential backtracking must hit it soon.
uint32_t match_limit(size_t size) { return static_cast<uint32_t>(std::min<size_t>(1'000'000 + 50 * size, UINT32_MAX)); }

std::string pcre2_message(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

PCRE2_SPTR bytes(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

struct MatchScratch::Impl {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(size_t{32} << 10, size_t{8} << 20, nullptr);

  Impl() {
    LAMINA_CHECK(data != nullptr && context != nullptr && stack != nullptr, "out of memory");
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

MatchScratch::MatchScratch() : impl_(std::make_unique<Impl>()) {}
MatchScratch::~MatchScratch() = default;

struct Pattern::Code {
  pcre2_code* compiled;
  bool jit;  // false where the system forbids executable memory

  explicit Code(pcre2_code* code) : compiled(code), jit(pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0) {}
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(compiled); }
};

Pattern Pattern::literal(std::string_view text) {
  Pattern pattern;
  pattern.literal_ = text;
  return pattern;
}

Result<Pattern> Pattern::regex(std::string_view pattern) {
  const auto bad = [&](const auto&... why) { return error("the regular expression \"", pattern, "\" does not compile: ", why...); };
  const Result<std::string> translated = oniguruma_to_pcre2(pattern);
  if (!translated.ok()) return bad(translated.error().message);
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(pcre2_compile_context_create(nullptr),
                                                                                              &pcre2_compile_context_free);
  LAMINA_CHECK(context != nullptr, "out of memory");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int code = 0;
  PCRE2_SIZE offset = 0;
  const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  pcre2_code* compiled = pcre2_compile(bytes(*translated), translated->size(), options, &code, &offset, context.get());
  if (compiled == nullptr) return bad(pcre2_message(code), " at offset ", offset, *translated == pattern ? "" : cat(" of ", *translated));
  Pattern result;
  result.code_ = std::make_shared<const Code>(compiled);
  return result;
}

Pattern Pattern::on_plain_text() && {
  plain_text_ = true;
  return std::move(*this);
}

Result<bool> Pattern::search(Subject subject, MatchScratch& scratch, Cursor& cursor) const {
  if (code_ == nullptr) {
    cursor.begin = literal_.empty() ? std::string_view::npos : subject.text.find(literal_, cursor.from);
    if (cursor.begin == std::string_view::npos) return false;
    cursor.end = cursor.begin + literal_.size();
    return true;
  }
  const MatchScratch::Impl& s = *scratch.impl_;
  if (!cursor.any) pcre2_set_match_limit(s.context, match_limit(subject.text.size()));
  const auto match = code_->jit ? &pcre2_jit_match : &pcre2_match;
  const std::string_view seen = plain_text_ ? subject.text : subject.shadow;
  const int rc = match(code_->compiled, bytes(seen), seen.size(), cursor.from, PCRE2_NO_UTF_CHECK, s.data, s.context);
  if (rc == PCRE2_ERROR_NOMATCH) return false;
  if (rc < 0) return error("a regular expression of the tokenizer gave up on the text at byte ", cursor.from, ": ", pcre2_message(rc));
  const PCRE2_SIZE* span = pcre2_get_ovector_pointer(s.data);
  cursor.begin = span[0];
  cursor.end = span[1];
  return true;
}

Result<bool> Pattern::next(Subject subject, MatchScratch& scratch, Cursor& cursor) const {
  const size_t last_end = cursor.end;
  while (cursor.from <= subject.text.size()) {
    LAMINA_ASSIGN(const bool found, search(subject, scratch, cursor));
    if (!found) return false;
    if (cursor.begin != cursor.end || !cursor.any || cursor.end != last_end) {
      cursor.any = true;
      cursor.from = cursor.end;
      return true;
    }
    // An empty match right after the last one: go on one character further.
    do ++cursor.from;
    while (cursor.from < subject.text.size() && (subject.text[cursor.from] & 0xC0) == 0x80);
  }
  return false;
}

}  // namespace lamina::text
