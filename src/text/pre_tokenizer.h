#pragma once
// The "pre_tokenizer" of tokenizer.json: cuts text into the words that the model encodes one by one.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/json_node.h"
#include "text/pattern.h"

namespace lamina::text {

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// Words of one piece of text; reusable, not for two threads at once.
struct WordList {
  struct Range {
    size_t begin, size;
  };
  Subject subject;            // what the ranges are of: the text given, or `text` below
  std::vector<Range> ranges;  // not empty, in order

  std::string_view word(size_t i) const { return subject.text.substr(ranges[i].begin, ranges[i].size); }

  std::string text, shadow, other_text;
  std::vector<Range> other_ranges;
};

/// Immutable. Types: Sequence, Split, ByteLevel (as the last one), Digits, Punctuation, Whitespace, Metaspace.
class PreTokenizer {
 public:
  PreTokenizer() = default;  // one word
  static Result<PreTokenizer> parse(const JsonNode& node);

  /// Words are bytes in the byte-level alphabet (byte_level.h); they are returned as the bytes themselves.
  bool byte_level() const { return byte_level_; }

  /// Cuts `text` (valid UTF-8, must outlive the use of `words`). `at_start`: nothing stands in front of it in the input.
  Status split(std::string_view text, bool at_start, WordList& words, MatchScratch& scratch) const;

 private:
  enum class Kind { kSplit, kPrefixSpace, kMetaspace };
  struct Step {
    Kind kind;
    Pattern pattern = Pattern::literal("");  // kSplit
    SplitBehavior behavior = SplitBehavior::kIsolated;
    bool invert = false;
    std::string replacement = {};                        // kMetaspace, of spaces
    bool prepend_always = false, prepend_first = false;  // kMetaspace
  };
  Status parse_into(const JsonNode& node, int depth);
  Status parse_byte_level(const JsonNode& node);
  Status parse_metaspace(const JsonNode& node);
  Status parse_split(const JsonNode& node);
  Status parse_digits(const JsonNode& node);
  Status parse_punctuation(const JsonNode& node);
  Status parse_whitespace(const JsonNode& node);
  void add_split(Pattern pattern, SplitBehavior behavior, bool invert = false);
  static Status cut(const Step& step, WordList& words, MatchScratch& scratch);
  static void rewrite(const Step& step, bool at_start, WordList& words);

  std::vector<Step> steps_;
  bool byte_level_ = false;
};

}  // namespace lamina::text
