// A broken tokenizer.json gives one error that names the file and the key.
#include <gtest/gtest.h>

#include "tests/text/vectors.h"

namespace lamina::text_test {
namespace {

constexpr std::string_view kGood = R"({
  "added_tokens": [{"id": 4, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
  "normalizer": {"type": "NFC"},
  "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\\s+"}, "behavior": "Isolated", "invert": false},
  "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [4], "tokens": ["<s>"]}}},
  "decoder": {"type": "Strip", "content": " ", "start": 1, "stop": 0},
  "model": {"type": "BPE", "dropout": null, "unk_token": null, "vocab": {"a": 0, "b": 1, "ab": 2, "c": 3}, "merges": ["a b"]}
})";

struct Broken {
  const char* name;
  std::string_view from, to;                // what is replaced in kGood
  std::vector<std::string_view> mentioned;  // in the error
};

const std::vector<Broken> kBroken = {
    {"NotJson", "{\n", "", {"tokenizer.json"}},
    {"NotAnObject", kGood, "[1]", {"the document", "expected an object", "array"}},
    {"Empty", kGood, "", {"tokenizer.json"}},
    {"NoModel", "\"model\"", "\"modell\"", {"\"model\" is missing"}},
    {"ModelNull", kGood, R"({"model": null})", {"model", "must not be null"}},
    {"ModelString", kGood, R"({"model": "BPE"})", {"model", "expected an object", "string"}},
    {"WordPiece", "\"BPE\"", "\"WordPiece\"", {"model", "WordPiece", "comes later"}},
    {"Unigram", "\"BPE\"", "\"Unigram\"", {"model", "Unigram", "comes later"}},
    {"UnknownModel", "\"BPE\"", "\"Word2Vec\"", {"model", "Word2Vec", "supported: BPE"}},
    {"ModelTypeNumber", "\"BPE\"", "7", {"model.type", "expected a string", "integer"}},
    {"Dropout", "\"dropout\": null", "\"dropout\": 0.1", {"model", "dropout"}},
    {"UnkTokenNumber", "\"unk_token\": null", "\"unk_token\": 3", {"model.unk_token", "expected a string"}},
    {"FlagNumber", "\"unk_token\": null", "\"fuse_unk\": 1", {"model.fuse_unk", "expected true or false"}},
    {"NoVocab", "\"vocab\"", "\"vocabulary\"", {"model", "\"vocab\" is missing"}},
    {"VocabArray", R"({"a": 0, "b": 1, "ab": 2, "c": 3})", "[]", {"model.vocab", "expected an object"}},
    {"VocabEmpty", R"({"a": 0, "b": 1, "ab": 2, "c": 3})", "{}", {"model.vocab", "no tokens"}},
    {"IdString", "\"c\": 3", "\"c\": \"3\"", {"model.vocab", "\"c\"", "expected an integer"}},
    {"IdFraction", "\"c\": 3", "\"c\": 3.5", {"model.vocab", "\"c\"", "expected an integer"}},
    {"IdNegative", "\"c\": 3", "\"c\": -3", {"model.vocab", "\"c\"", "-3 is negative"}},
    {"IdTwice", "\"c\": 3", "\"c\": 2", {"model.vocab", "the id 2", "\"ab\"", "\"c\""}},
    {"IdFarOff", "\"c\": 3", "\"c\": 1000000", {"model.vocab", "1000000", "far beyond"}},
    {"IdHuge", "\"c\": 3", "\"c\": 9223372036854775807", {"model.vocab", "9223372036854775807", "far beyond"}},
    {"NoMerges", "\"merges\"", "\"merge\"", {"model", "\"merges\" is missing"}},
    {"MergesObject", "[\"a b\"]", "{}", {"model.merges", "expected an array"}},
    {"MergeOfOne", "[\"a b\"]", "[\"a b\", \"ab\"]", {"model", "merges[1]", "expected"}},
    {"MergeOfThree", "[\"a b\"]", "[\"a b c\"]", {"model", "merges[0]", "expected"}},
    {"MergeTriple", "[\"a b\"]", "[[\"a\", \"b\", \"c\"]]", {"model", "merges[0]", "expected"}},
    {"MergeOfNumbers", "[\"a b\"]", "[[0, 1]]", {"model", "merges[0]", "expected"}},
    {"MergeLeftUnknown", "[\"a b\"]", "[\"x b\"]", {"merges[0]", "\"x\" is not in vocab"}},
    {"MergeRightUnknown", "[\"a b\"]", "[\"a x\"]", {"merges[0]", "\"x\" is not in vocab"}},
    {"MergeResultUnknown", "[\"a b\"]", "[\"a b\", \"b c\"]", {"merges[1]", "\"bc\" is not in vocab"}},
    {"AddedObject", "[{\"id\": 4", "{\"x\": [{\"id\": 4", {"tokenizer.json"}},
    {"AddedWithoutContent", "\"content\": \"<s>\"", "\"text\": \"<s>\"", {"added_tokens[0]", "\"content\" is missing"}},
    {"AddedEmpty", "\"content\": \"<s>\"", "\"content\": \"\"", {"added_tokens[0]", "content must not be empty"}},
    {"AddedFlagString", "\"lstrip\": false", "\"lstrip\": \"no\"", {"added_tokens[0].lstrip", "expected true or false"}},
    {"AddedIdNegative", "\"id\": 4", "\"id\": -4", {"added_tokens[0].id", "-4"}},
    {"AddedIdFarOff", "\"id\": 4", "\"id\": 15000000", {"added_tokens[0]", "15000000", "far beyond"}},
    {"AddedIdTaken", "\"id\": 4", "\"id\": 3", {"added_tokens[0]", "the id 3", "\"<s>\"", "\"c\""}},
    {"AddedContentTaken",
     "\"content\": \"<s>\"",
     "\"content\": \"c\"",
     {"added_tokens[0]", "\"c\" has the id 4 here and 3 in model.vocab"}},
    {"AddedTwice", "\"added_tokens\": [", "\"added_tokens\": [{\"id\": 4, \"content\": \"<t>\"}, ", {"added_tokens[1]", "the id 4", "<t>"}},
    {"NormalizerString", "{\"type\": \"NFC\"}", "\"NFC\"", {"normalizer", "expected an object"}},
    {"NormalizerUnknown", "\"NFC\"", "\"Nmt\"", {"normalizer", "\"Nmt\" is not supported"}},
    {"ReplaceWithoutPattern",
     "{\"type\": \"NFC\"}",
     "{\"type\": \"Replace\", \"content\": \"\"}",
     {"normalizer", "\"pattern\" is missing"}},
    {"SequenceWithoutList", "{\"type\": \"NFC\"}", "{\"type\": \"Sequence\"}", {"normalizer", "\"normalizers\" is missing"}},
    {"PreTokenizerUnknown", "\"Split\"", "\"UnicodeScripts\"", {"pre_tokenizer", "\"UnicodeScripts\" is not supported"}},
    {"BehaviorUnknown", "\"Isolated\"", "\"Isolate\"", {"pre_tokenizer", "\"Isolate\"", "Isolated, Merged"}},
    {"PatternEmpty", "{\"Regex\": \"\\\\s+\"}", "{}", {"pre_tokenizer.pattern", "Regex"}},
    {"RegexUnclosed", "\\\\s+", "(a|b", {"pre_tokenizer.pattern", "(a|b", "does not compile", "offset 4"}},
    {"RegexBadClass", "\\\\s+", "\\\\p{Nonsense}", {"pre_tokenizer.pattern", "does not compile", "offset"}},
    {"RegexBackReference", "\\\\s+", "(a)\\\\1", {"pre_tokenizer.pattern", "back reference", "offset 3"}},
    {"PostProcessorUnknown", "\"TemplateProcessing\"", "\"BertProcessing\"", {"post_processor", "\"BertProcessing\" is not supported"}},
    {"TemplateTokenUnknown", "\"special_tokens\": {\"<s>\"", "\"special_tokens\": {\"<t>\"", {"post_processor.special_tokens", "<s>"}},
    {"TemplateIdUnknown", "\"ids\": [4]", "\"ids\": [5]", {"post_processor", "the id 5 has no token"}},
    {"TemplateIdHuge", "\"ids\": [4]", "\"ids\": [99999999999]", {"post_processor.special_tokens.<s>.ids[0]", "expected token ids"}},
    {"TemplateWithoutText", "{\"Sequence\": {\"id\": \"A\"", "{\"Sequence\": {\"id\": \"B\"", {"post_processor.single[1]", "\"B\""}},
    {"DecoderUnknown", "\"Strip\"", "\"CTC\"", {"decoder", "\"CTC\" is not supported"}},
    {"DecoderStop", "\"stop\": 0", "\"stop\": 1", {"decoder", "stop must be 0"}},
    {"DecoderCharacter", "\"content\": \" \"", "\"content\": \"ab\"", {"decoder", "content must be one character"}},
};

class MalformedTokenizer : public testing::TestWithParam<Broken> {};

TEST_P(MalformedTokenizer, GivesOneErrorThatNamesTheKey) {
  const Broken& broken = GetParam();
  ASSERT_TRUE(Tokenizer::parse(kGood, "tokenizer.json").ok());
  std::string json(kGood);
  const size_t at = json.find(broken.from);
  ASSERT_NE(at, std::string::npos);
  json.replace(at, broken.from.size(), broken.to);
  const Result<Tokenizer> tokenizer = Tokenizer::parse(json, "tokenizer.json");
  ASSERT_FALSE(tokenizer.ok());
  const std::string& message = tokenizer.error().message;
  EXPECT_TRUE(message.starts_with("tokenizer.json")) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  for (const std::string_view part : broken.mentioned) EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part;
}
INSTANTIATE_TEST_SUITE_P(All, MalformedTokenizer, testing::ValuesIn(kBroken), [](const auto& named) { return named.param.name; });

TEST(MalformedTokenizerFolder, NamesTheMissingFile) {
  const Result<Tokenizer> tokenizer = Tokenizer::load("/nonexistent");
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_NE(tokenizer.error().message.find("/nonexistent/tokenizer.json"), std::string::npos);
}

}  // namespace
}  // namespace lamina::text_test
