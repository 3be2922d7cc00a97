#pragma once
// A search pattern of tokenizer.json: a literal string, or a regular expression on PCRE2 (JIT).

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lamina::text {

/// What a thread needs while matching; reusable, not for two threads at once.
class MatchScratch {
 public:
  MatchScratch();
  ~MatchScratch();
  MatchScratch(const MatchScratch&) = delete;
  MatchScratch& operator=(const MatchScratch&) = delete;

 private:
  friend class Pattern;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Valid UTF-8 and its shadow (unicode_shadow.h).
struct Subject {
  std::string_view text;
  std::string_view shadow;
  Subject substr(size_t begin, size_t size) const { return {text.substr(begin, size), shadow.substr(begin, size)}; }
};

/// Immutable; threads may match at the same time. Copies share the compiled code.
class Pattern {
 public:
  static Pattern literal(std::string_view text);
  /// `pattern` in Oniguruma's syntax. The error tells what does not compile and the byte offset.
  static Result<Pattern> regex(std::string_view pattern);
  /// The same pattern, looking at the text itself instead of its shadow.
  Pattern on_plain_text() &&;

  /// The non-empty pieces of `subject` in order, covering it: on_piece(begin, end, is_match). Matches follow each other as in the
  /// library's iterator; an empty match only cuts. Running into PCRE2's limits (set so that linear work always fits) is an error.
  template <class F>
  Status for_each_piece(Subject subject, MatchScratch& scratch, F&& on_piece) const {
    size_t covered = 0;
    Cursor cursor;
    while (true) {
      LAMINA_ASSIGN(const bool found, next(subject, scratch, cursor));
      if (!found) break;
      if (cursor.begin != covered) on_piece(covered, cursor.begin, false);
      if (cursor.end != cursor.begin) on_piece(cursor.begin, cursor.end, true);
      covered = cursor.end;
    }
    if (covered != subject.text.size()) on_piece(covered, subject.text.size(), false);
    return {};
  }

 private:
  struct Code;
  struct Cursor {
    size_t begin = 0, end = 0;  // the last match
    size_t from = 0;            // where the next search starts
    bool any = false;
  };
  Result<bool> next(Subject subject, MatchScratch& scratch, Cursor& cursor) const;
  Result<bool> search(Subject subject, MatchScratch& scratch, Cursor& cursor) const;

  std::string literal_;
  bool plain_text_ = false;
  std::shared_ptr<const Code> code_;  // null for a literal; owned by the copies of this pattern
};

}  // namespace lamina::text
