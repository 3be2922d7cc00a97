// Streams: what they hold, and that they say the same as the answers in one piece.

#include <gtest/gtest.h>

#include <map>

#include "base/strings.h"
#include "tests/server/live_server.h"
#include "tests/support/toy_model.h"

namespace lamina::server_test {
namespace {

/// What the chunks of one choice hold.
struct Streamed {
  std::string text;
  int roles = 0, finishes = 0;
  std::string finish_reason;
  Json::Array logprobs;
  bool after_finish = false;  // something came after the finish
};

std::map<int64_t, Streamed> by_index(const std::vector<Json>& chunks, bool chat) {
  std::map<int64_t, Streamed> out;
  for (const Json& chunk : chunks) {
    for (const Json& choice : chunk.find("choices")->as_array()) {
      Streamed& streamed = out[choice.find("index")->as_integer()];
      streamed.after_finish |= streamed.finishes > 0;
      const Json& holder = chat ? *choice.find("delta") : choice;
      if (holder.find("role") != nullptr) ++streamed.roles;
      if (const Json* text = holder.find(chat ? "content" : "text")) streamed.text += text->as_string();
      if (choice.find("finish_reason")->is_string()) {
        ++streamed.finishes;
        streamed.finish_reason = choice.find("finish_reason")->as_string();
      }
      if (const Json* logprobs = choice.find("logprobs"); !logprobs->is_null()) {
        for (const Json& entry : logprobs->find(chat ? "content" : "token_logprobs")->as_array()) streamed.logprobs.push_back(entry);
      }
    }
  }
  return out;
}

std::string chat_body(std::string_view fields) {
  return cat(R"({"messages":[{"role":"user","content":"What is a glacier?"}])", fields, "}");
}

TEST(Streams, EndWithOneUsageWhenAsked) {
  LiveServer live(demo_options());
  const std::string asks[] = {R"(,"temperature":0,"stream":true)",
                              R"(,"temperature":0,"stream":true,"stream_options":{"include_usage":true})"};
  for (int with = 0; with < 2; ++with) {
    const std::vector<Json> chunks = live.post("/v1/chat/completions", chat_body(asks[with])).chunks();
    int usages = 0;
    for (const Json& chunk : chunks) usages += chunk.find("usage") != nullptr && !chunk.find("usage")->is_null();
    EXPECT_EQ(usages, with);
    EXPECT_EQ(chunks.back().find("choices")->as_array().empty(), with == 1);
    if (with == 1) {
      EXPECT_EQ(chunks.back().find("usage")->find("completion_tokens")->as_integer(), 8);
    }
  }
  const std::string always = R"(,"temperature":0,"stream":true,"stream_options":{"continuous_usage_stats":true})";
  for (const Json& chunk : live.post("/v1/chat/completions", chat_body(always)).chunks()) EXPECT_FALSE(chunk.find("usage")->is_null());
}

TEST(Streams, EachChoiceHasItsRoleItsTextAndOneFinish) {
  LiveServer live(demo_options());
  const std::string ask = R"(,"n":3,"temperature":3,"seed":5,"logprobs":true,"top_logprobs":2,"max_tokens":20)";
  const Response whole = live.post("/v1/chat/completions", chat_body(ask));
  const std::map<int64_t, Streamed> streamed =
      by_index(live.post("/v1/chat/completions", chat_body(ask + R"(,"stream":true)")).chunks(), true);
  ASSERT_EQ(streamed.size(), 3u) << whole.body;
  const Json json = whole.json();
  for (const Json& choice : json.find("choices")->as_array()) {
    const Streamed& other = streamed.at(choice.find("index")->as_integer());
    EXPECT_EQ(other.roles, 1);
    EXPECT_EQ(other.finishes, 1);
    EXPECT_FALSE(other.after_finish);
    EXPECT_EQ(other.text, choice.find("message")->find("content")->as_string());
    EXPECT_EQ(other.finish_reason, choice.find("finish_reason")->as_string());
    EXPECT_EQ(Json(other.logprobs), *choice.find("logprobs")->find("content"));
  }
  EXPECT_NE(streamed.at(0).text, streamed.at(1).text);
}

TEST(Streams, CompletionsSayTheSameAsInOnePiece) {
  LiveServer live(demo_options());
  const std::string fields = R"({"prompt":["glacier","<|user|>What is a violin?<|end|><|assistant|>"],"n":2,"seed":3,"max_tokens":24,)"
                             R"("logprobs":1,"echo":true,"stop":["of"])";
  const Json whole = live.post("/v1/completions", fields + "}").json();
  const std::map<int64_t, Streamed> streamed = by_index(live.post("/v1/completions", fields + R"(,"stream":true})").chunks(), false);
  ASSERT_EQ(streamed.size(), 4u);
  for (const Json& choice : whole.find("choices")->as_array()) {
    const Streamed& other = streamed.at(choice.find("index")->as_integer());
    EXPECT_EQ(other.finishes, 1);
    EXPECT_EQ(other.text, choice.find("text")->as_string());
    EXPECT_EQ(Json(other.logprobs), *choice.find("logprobs")->find("token_logprobs"));
  }
}

TEST(Streams, NeverShowPartOfAStopString) {
  LiveServer live(demo_options());
  const std::string text = "a slowly moving mass of ice";
  for (const std::string& stop :
       {std::string("slowly mov"), std::string("y m"), std::string("ice"), std::string("a"), std::string("ss of i")}) {
    const std::string body =
        cat(R"({"prompt":"<|user|>What is a glacier?<|end|><|assistant|>","temperature":0,"max_tokens":30,"stream":true,"stop":")", stop,
            "\"}");
    const Streamed streamed = by_index(live.post("/v1/completions", body).chunks(), false).at(0);
    EXPECT_EQ(streamed.text, text.substr(0, text.find(stop))) << stop;
    EXPECT_EQ(streamed.finish_reason, "stop");
  }
}

TEST(Streams, ErrorsComeAsDataAndEndThem) {
  const fixture::TempFolder folder;
  fixture::ToyModel model = fixture::toy_model();
  model.tensors["model.norm.weight"] = fixture::constant_tensor({64}, std::numeric_limits<float>::quiet_NaN());
  model.write(folder);
  EngineOptions options;
  options.model = folder.path();
  options.max_total_tokens = 1024;
  LiveServer live(options);
  const Response response = live.post("/v1/completions", R"({"prompt":[1,2],"n":2,"stream":true})");
  EXPECT_EQ(response.status, 200);
  ASSERT_EQ(response.events().size(), 1u) << response.body;
  const Json event = *parse_json(response.events()[0], "event");
  EXPECT_EQ(event.find("error")->find("type")->as_string(), "server_error");
  EXPECT_EQ(response.body.find("event:"), std::string::npos);
  EXPECT_EQ(live.post("/v1/completions", R"({"prompt":[1,2]})").status, 500);
  EXPECT_TRUE(live.eventually([](const EngineStats& s) { return s.running == 0 && s.waiting == 0 && s.pages_held == 0; }));
}

TEST(Streams, ReportWhatTheCacheHad) {
  const ToyFolder toy;
  LiveServer live(toy.options());
  std::string ids = "1";
  for (int i = 0; i < 200; ++i) ids += cat(",", i);
  const std::string body = cat("{\"prompt\":[", ids, "],\"max_tokens\":1,\"temperature\":0}");
  const auto cached = [&](const std::string& text) {
    return live.post("/v1/completions", text).json().find("usage")->find("prompt_tokens_details")->find("cached_tokens")->as_integer();
  };
  EXPECT_EQ(cached(body), 0);
  EXPECT_EQ(cached(body), 200);
  EXPECT_EQ(cached(cat(body.substr(0, body.size() - 1), ",\"cache_salt\":\"mine\"}")), 0);
  EXPECT_EQ(live.post("/flush_cache", "").status, 200);
  EXPECT_EQ(cached(body), 0);
}

}  // namespace
}  // namespace lamina::server_test
