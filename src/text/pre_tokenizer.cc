#include "text/pre_tokenizer.h"

#include "text/class_patterns.h"
#include "text/normalizer.h"
#include "text/unicode_shadow.h"

namespace lamina::text {
namespace {

Result<SplitBehavior> parse_behavior(const JsonNode& node, std::string_view fallback) {
  LAMINA_ASSIGN(const std::string name, node.string_or("behavior", fallback));
  struct Name {
    std::string_view name;
    SplitBehavior behavior;
  };
  constexpr Name kNames[] = {{"Removed", SplitBehavior::kRemoved},
                             {"Isolated", SplitBehavior::kIsolated},
                             {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
                             {"MergedWithNext", SplitBehavior::kMergedWithNext},
                             {"Contiguous", SplitBehavior::kContiguous}};
  for (const Name& known : kNames)
    if (known.name == name) return known.behavior;
  return node.fail("behavior \"", name, "\" is not one of Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
}

// Joins the pieces of one text by a behavior. Each piece is held until its right neighbour is known.
class Joiner {
 public:
  Joiner(SplitBehavior behavior, bool invert, size_t base, std::vector<WordList::Range>& out)
      : behavior_(behavior), invert_(invert), base_(base), out_(out) {}

  void add(size_t begin, size_t end, bool matched) {
    const bool is_match = matched != invert_;
    if (behavior_ == SplitBehavior::kIsolated) return emit(begin, end);
    if (behavior_ == SplitBehavior::kRemoved) {
      if (!is_match) emit(begin, end);
      return;
    }
    if (held_ && joins(is_match)) {
      end_ = end;
    } else {
      flush();
      begin_ = begin;
      end_ = end;
      held_ = true;
    }
    last_was_match_ = is_match;
  }
  void flush() {
    if (held_) emit(begin_, end_);
    held_ = false;
  }

 private:
  bool joins(bool is_match) const {
    switch (behavior_) {
      case SplitBehavior::kContiguous:
        return is_match == last_was_match_;
      case SplitBehavior::kMergedWithPrevious:
        return is_match && !last_was_match_;
      default:
        return !is_match && last_was_match_;  // MergedWithNext
    }
  }
  void emit(size_t begin, size_t end) { out_.push_back({base_ + begin, end - begin}); }

  SplitBehavior behavior_;
  bool invert_;
  size_t base_;
  std::vector<WordList::Range>& out_;
  size_t begin_ = 0, end_ = 0;
  bool held_ = false, last_was_match_ = false;
};

}  // namespace

Result<PreTokenizer> PreTokenizer::parse(const JsonNode& node) {
  PreTokenizer result;
  LAMINA_TRY(result.parse_into(node, 0));
  return result;
}

void PreTokenizer::add_split(Pattern pattern, SplitBehavior behavior, bool invert) {
  steps_.push_back({.kind = Kind::kSplit, .pattern = std::move(pattern), .behavior = behavior, .invert = invert});
}

Status PreTokenizer::parse_into(const JsonNode& node, int depth) {
  LAMINA_ASSIGN(const std::string type, node.type());
  if (type == "Sequence") {
    if (depth > kMaxNesting) return node.fail("sequences are nested too deeply");
    LAMINA_ASSIGN(const std::vector<JsonNode> items, node.array("pretokenizers"));
    for (const JsonNode& item : items) LAMINA_TRY(parse_into(item, depth + 1));
    return {};
  }
  if (byte_level_) return node.fail("the pre-tokenizer \"", type, "\" after ByteLevel is not supported");
  struct Name {
    std::string_view type;
    Status (PreTokenizer::*parse)(const JsonNode&);
  };
  constexpr Name kNames[] = {{"ByteLevel", &PreTokenizer::parse_byte_level},
                             {"Metaspace", &PreTokenizer::parse_metaspace},
                             {"Split", &PreTokenizer::parse_split},
                             {"Digits", &PreTokenizer::parse_digits},
                             {"Punctuation", &PreTokenizer::parse_punctuation},
                             {"Whitespace", &PreTokenizer::parse_whitespace}};
  for (const Name& name : kNames)
    if (name.type == type) return (this->*name.parse)(node);
  return node.fail("the pre-tokenizer \"", type, "\" is not supported");
}

Status PreTokenizer::parse_whitespace(const JsonNode&) {
  add_split(words_pattern(), SplitBehavior::kRemoved, true);
  return {};
}

Status PreTokenizer::parse_punctuation(const JsonNode& node) {
  LAMINA_ASSIGN(const SplitBehavior behavior, parse_behavior(node, "Isolated"));
  add_split(punctuation_pattern(), behavior);
  return {};
}

Status PreTokenizer::parse_digits(const JsonNode& node) {
  LAMINA_ASSIGN(const bool individual, node.boolean_or("individual_digits", false));
  add_split(number_pattern(), individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
  return {};
}

Status PreTokenizer::parse_byte_level(const JsonNode& node) {
  LAMINA_ASSIGN(const bool prefix_space, node.boolean_or("add_prefix_space", true));
  LAMINA_ASSIGN(const bool use_regex, node.boolean_or("use_regex", true));
  if (prefix_space) steps_.push_back({.kind = Kind::kPrefixSpace});
  if (use_regex) add_split(gpt2_pattern(), SplitBehavior::kIsolated);
  byte_level_ = true;
  return {};
}

Status PreTokenizer::parse_metaspace(const JsonNode& node) {
  Step step{.kind = Kind::kMetaspace};
  LAMINA_ASSIGN(step.replacement, node.string_or("replacement", "\u2581"));
  if (step.replacement.empty()) return node.fail("replacement must be one character");
  LAMINA_ASSIGN(const bool prefix_space, node.boolean_or("add_prefix_space", true));
  LAMINA_ASSIGN(const std::string scheme, node.string_or("prepend_scheme", prefix_space ? "always" : "never"));
  if (scheme != "always" && scheme != "first" && scheme != "never")
    return node.fail("prepend_scheme \"", scheme, "\" is not one of always, first, never");
  step.prepend_always = scheme == "always";
  step.prepend_first = scheme == "first";
  LAMINA_ASSIGN(const bool split, node.boolean_or("split", true));
  const Pattern replacement = Pattern::literal(step.replacement);
  steps_.push_back(std::move(step));
  if (split) add_split(replacement, SplitBehavior::kMergedWithNext);
  return {};
}

Status PreTokenizer::parse_split(const JsonNode& node) {
  LAMINA_ASSIGN(Pattern pattern, parse_pattern(node, "pattern"));
  LAMINA_ASSIGN(const SplitBehavior behavior, parse_behavior(node, ""));
  LAMINA_ASSIGN(const bool invert, node.boolean_or("invert", false));
  add_split(std::move(pattern), behavior, invert);
  return {};
}

Status PreTokenizer::split(std::string_view text, bool at_start, WordList& words, MatchScratch& scratch) const {
  words.ranges.clear();
  if (text.empty()) return {};
  words.subject = {text, shadow_of(text, words.shadow)};
  words.ranges.push_back({0, text.size()});
  for (const Step& step : steps_) {
    if (step.kind == Kind::kSplit) {
      LAMINA_TRY(cut(step, words, scratch));
    } else {
      rewrite(step, at_start, words);
    }
  }
  return {};
}

Status PreTokenizer::cut(const Step& step, WordList& words, MatchScratch& scratch) {
  words.other_ranges.clear();
  for (const WordList::Range range : words.ranges) {
    Joiner joiner(step.behavior, step.invert, range.begin, words.other_ranges);
    LAMINA_TRY(step.pattern.for_each_piece(words.subject.substr(range.begin, range.size), scratch,
                                           [&](size_t begin, size_t end, bool is_match) { joiner.add(begin, end, is_match); }));
    joiner.flush();
  }
  words.ranges.swap(words.other_ranges);
  return {};
}

// Puts a space or the replacement in front of words that do not begin with it, after writing spaces as the replacement.
void PreTokenizer::rewrite(const Step& step, bool at_start, WordList& words) {
  const bool metaspace = step.kind == Kind::kMetaspace;
  const std::string_view prefix = metaspace ? std::string_view(step.replacement) : " ";
  std::string& out = words.other_text;
  out.clear();
  for (WordList::Range& range : words.ranges) {
    const std::string_view word = words.subject.text.substr(range.begin, range.size);
    const bool has_prefix = word.starts_with(prefix) || (metaspace && word.starts_with(' '));
    const bool wants_prefix = !metaspace || step.prepend_always || (step.prepend_first && at_start && range.begin == 0);
    const size_t begin = out.size();
    if (wants_prefix && !has_prefix) out += prefix;
    for (const char c : word) {
      if (metaspace && c == ' ') {
        out += prefix;
      } else {
        out += c;
      }
    }
    range = {begin, out.size() - begin};
  }
  words.text.swap(out);
  words.subject = {words.text, shadow_of(words.text, words.shadow)};
}

}  // namespace lamina::text
