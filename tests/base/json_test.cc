#include "base/json.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "base/strings.h"

namespace lamina {
namespace {

Json parsed(std::string_view text) {
  auto value = parse_json(text, "test");
  EXPECT_TRUE(value.ok()) << text << ": " << (value.ok() ? "" : value.error().message);
  return value.ok() ? *value : Json();
}

std::string refusal(std::string_view text, JsonLimits limits = {}) {
  const auto value = parse_json(text, "config.json", limits);
  EXPECT_FALSE(value.ok()) << text;
  return value.ok() ? "" : value.error().message;
}

TEST(Json, ParsesEveryKindAndKeepsKeyOrder) {
  const Json value = parsed(R"( {"z":null,"a":[true,false,-7,1.5,"\u00e9\ud83d\ude00\n"],"m":{}} )");
  ASSERT_TRUE(value.is_object());
  EXPECT_EQ(value.as_object()[0].first, "z");
  EXPECT_EQ(value.as_object()[2].first, "m");
  const auto& items = value.find("a")->as_array();
  EXPECT_TRUE(items[0].as_bool());
  EXPECT_EQ(items[2].as_integer(), -7);
  EXPECT_EQ(items[3].as_double(), 1.5);
  EXPECT_EQ(items[4].as_string(), "\u00e9\U0001F600\n");
  EXPECT_EQ(value.find("absent"), nullptr);
  EXPECT_EQ(items[0].find("a"), nullptr);
}

TEST(Json, NumbersKeepTheirKind) {
  EXPECT_TRUE(parsed("1").is_integer());
  EXPECT_EQ(parsed("1.0").kind(), Json::Kind::kDouble);
  EXPECT_EQ(parsed("1e2").kind(), Json::Kind::kDouble);
  EXPECT_FALSE(parsed("1") == parsed("1.0"));
  EXPECT_EQ(parsed("7").as_double(), 7.0);
}

TEST(Json, IntegersBeyondInt64BecomeDoubles) {
  EXPECT_EQ(parsed("9223372036854775807").as_integer(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(parsed("-9223372036854775808").as_integer(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(parsed("9223372036854775808").as_double(), 0x1p63);
  EXPECT_EQ(parsed("18446744073709551616").as_double(), 0x1p64);
  EXPECT_EQ(parsed("12345678901234567890").wide_integer(), 12345678901234567890u);
  EXPECT_EQ(parsed("12345678901234567890").dump(), "12345678901234567890");
  for (const char* other : {"1", "1.5", "1e19", "18446744073709551616"}) EXPECT_EQ(parsed(other).wide_integer(), 0u);
  EXPECT_EQ(parsed("-9223372036854775809").kind(), Json::Kind::kDouble);
}

TEST(Json, RefusesMalformedTextNamingFileAndOffset) {
  for (const char* text : {"", " ", "{", "[1,]", "{\"a\":1,}", "{a:1}", "01", "1 2", "nul", "\"\t\"", "'a'", "[NaN]", "1e999", "//\n1"}) {
    const std::string message = refusal(text);
    EXPECT_TRUE(message.starts_with("config.json: invalid JSON at byte ")) << message;
    EXPECT_EQ(message.find("exception"), message.npos) << message;
  }
  EXPECT_NE(refusal("[1, 2, x]").find("byte 8"), std::string::npos) << refusal("[1, 2, x]");
}

TEST(Json, RefusesInvalidUtf8AndLoneSurrogates) {
  for (const char* text :
       {"\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xe2\x82\"", R"("\ud800")", R"("\udc00")", R"("\ud800\u0041")"}) {
    refusal(text);
  }
}

TEST(Json, ErrorsStayShortAndPrintable) {
  const std::string message = refusal(cat("[\"", std::string(100000, 'x'), "\xff\"]"));
  EXPECT_LT(message.size(), 400U);
  EXPECT_TRUE(parse_json(Json(message).dump(), "message").ok());
}

TEST(Json, RefusesDuplicateKeysInSmallAndLargeObjects) {
  EXPECT_NE(refusal(R"({"a":1,"b":2,"a":3})").find("duplicate key \"a\""), std::string::npos);
  EXPECT_NE(refusal(R"([{"x":{"k":1,"k":1}}])").find("duplicate key \"k\""), std::string::npos);
  std::string large = "{";
  for (int i = 0; i < 100; ++i) large += cat("\"k", i, "\":0,");
  EXPECT_NE(refusal(large + "\"k42\":1}").find("duplicate key \"k42\""), std::string::npos);
  EXPECT_EQ(parsed(large + "\"k100\":1}").as_object().size(), 101U);
}

TEST(Json, BoundsDepth) {
  const auto nested = [](int depth) { return std::string(static_cast<size_t>(depth), '[') + std::string(static_cast<size_t>(depth), ']'); };
  parsed(nested(128));
  EXPECT_NE(refusal(nested(129)).find("128 levels"), std::string::npos);
  EXPECT_NE(refusal(nested(100000), {.max_depth = 1 << 30}).find("1000 levels"), std::string::npos);
  EXPECT_TRUE(parse_json("3", "x", {.max_depth = 0}).ok());
  refusal(std::string(100000, '['));
  refusal(cat("{\"a\":", std::string(100000, '[')));
}

TEST(Json, BoundsSize) { EXPECT_NE(refusal("[1,2,3]", {.max_bytes = 6}).find("7 bytes of JSON; at most 6"), std::string::npos); }

TEST(Json, ParsesALargeVocabularyInLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 300000; ++i) text += cat(i > 0 ? "," : "", "\"token-", i, "\":", i);
  text += "}";
  const Json vocabulary = parsed(text);
  EXPECT_EQ(vocabulary.as_object().size(), 300000U);
  EXPECT_EQ(vocabulary.as_object().back().second.as_integer(), 299999);
}

TEST(Json, SetAndPushBuildValues) {
  Json value;
  value.set("a", 1);
  value.set("b", "text");
  value.set("a", true);
  Json list;
  list.push(1.0);
  list.push(nullptr);
  value.set("c", list);
  EXPECT_EQ(value.dump(), R"({"a":true,"b":"text","c":[1.0,null]})");
}

TEST(Json, UnsignedValuesBeyondInt64BecomeDoubles) {
  EXPECT_EQ(Json(size_t{5}).as_integer(), 5);
  EXPECT_EQ(Json(std::numeric_limits<size_t>::max()).as_double(), 0x1p64);
}

TEST(Json, DamagedTextIsRefusedOrReadsBackEqual) {
  const std::string whole = R"({"a":[1,-2.5e3,true,null,"x\u00e9\n\"q\"",{"b":{},"c":[[],[1.0]]}],"😀":123456789012345678901})";
  ASSERT_TRUE(parsed(whole).is_object());
  std::mt19937 random(7);
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = whole;
    for (size_t edits = 1 + random() % 2; edits > 0; --edits) {
      const size_t at = random() % text.size();
      if (random() % 2 == 0)
        text[at] = static_cast<char>(random());
      else
        text.erase(at, 1 + random() % 3);
    }
    const auto value = parse_json(text, "damaged");
    if (!value.ok()) continue;
    ++accepted;
    ASSERT_EQ(parsed(value->dump()), *value) << text;
    ASSERT_EQ(parsed(value->dump(1)), *value) << text;
  }
  EXPECT_GT(accepted, 100);
}

TEST(Json, DumpIndentsLikePython) {
  EXPECT_EQ(parsed(R"({"a":[1,{"b":2}],"c":{},"d":[]})").dump(2),
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": 2\n    }\n  ],\n  \"c\": {},\n  \"d\": []\n}");
}

TEST(Json, DumpEscapesControlCharactersAndKeepsTheRest) {
  EXPECT_EQ(Json(std::string("\"\\/\n\r\t\x01\x1f\0é", 11)).dump(), "\"\\\"\\\\/\\n\\r\\t\\u0001\\u001f\\u0000é\"");
}

TEST(Json, DumpReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(Json("a\xff"
                 "b")
                .dump(),
            "\"a\uFFFDb\"");
}

TEST(Json, DumpedNumbersReadBackEqualAndOfTheSameKind) {
  for (double v : {0.0, -0.0, 1.0, 0.1, -2.5, 1e15, 1e16, 1e22, 1e300, 5e-324, 1.7976931348623157e308, 123456789.0}) {
    const Json back = parsed(Json(v).dump());
    ASSERT_EQ(back.kind(), Json::Kind::kDouble) << Json(v).dump();
    EXPECT_EQ(back.as_double(), v);
  }
  EXPECT_EQ(Json(-0.0).dump(), "-0.0");
  EXPECT_EQ(Json(std::numeric_limits<int64_t>::min()).dump(), "-9223372036854775808");
  EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).dump(), "null");
  EXPECT_EQ(Json(std::numeric_limits<double>::quiet_NaN()).dump(), "null");
}

TEST(Json, KindNamesReadAsPartOfAnError) {
  EXPECT_STREQ(Json().kind_name(), "null");
  EXPECT_STREQ(Json(3).kind_name(), "an integer");
  EXPECT_STREQ(Json::object().kind_name(), "an object");
}

TEST(JsonDeathTest, AccessorsCheckTheKind) { EXPECT_DEATH(static_cast<void>(Json(1).as_string()), "no string"); }

}  // namespace
}  // namespace lamina
