// Clients that go away, in whatever state their request is: it is cancelled and everything is given back.

#include <gtest/gtest.h>

#include "base/strings.h"
#include "tests/server/live_server.h"

namespace lamina::server_test {
namespace {

// Every server here makes its steps one by one (LiveServer::step_by_step), so that no request ends by itself before its client is gone.

/// A prompt of thousands of tokens takes hundreds of steps.
EngineOptions slow_options(const ToyFolder& toy) {
  EngineOptions options = toy.options();
  options.chunked_prefill_size = 8;
  options.max_running_requests = 4;
  return options;
}

std::string long_prompt(int tokens, std::string_view fields) {
  std::string ids = "1";
  for (int i = 1; i < tokens; ++i) ids += cat(",", i * 7 % 251);
  return cat("{\"prompt\":[", ids, "],\"ignore_eos\":true", fields, "}");
}

constexpr const char* kEndless = R"({"prompt":[1,2],"max_tokens":60000,"ignore_eos":true)";
constexpr const char* kStream = R"(,"stream":true,"logprobs":0})";  // each token is an event, also one that is no whole character

/// Nobody runs, and `aborted` requests were cancelled since the start: they are counted after the step that is under way.
auto only_aborted(int64_t aborted) {
  return [aborted](const EngineStats& s) { return s.running == 0 && s.waiting == 0 && s.pages_held == 0 && s.aborted == aborted; };
}

TEST(Aborts, InPrefill) {
  const ToyFolder toy;
  LiveServer live(slow_options(toy));
  live.step_by_step();
  int64_t aborted = 0;
  for (const std::string fields : {"", ",\"stream\":true", ",\"n\":3", ",\"echo\":true,\"logprobs\":0"}) {
    const int choices = fields.find("\"n\"") == std::string::npos ? 1 : 3;
    for (const bool by_reset : {false, true}) {
      SCOPED_TRACE(fields);
      Connection connection(live.port());
      connection.send(post_text("/v1/completions", long_prompt(8000, fields + ",\"max_tokens\":1000")));
      ASSERT_TRUE(live.eventually([&](const EngineStats& s) { return s.running > 0 && s.running + s.waiting == choices; }));
      by_reset ? connection.reset() : connection.close();
      aborted += choices;
      ASSERT_TRUE(live.eventually(only_aborted(aborted)));
      EXPECT_EQ(live.engine().stats().generation_tokens, 0);
      EXPECT_TRUE(live.engine().flush_cache());
    }
  }
  live.expect_at_rest();
}

TEST(Aborts, OfAnEmbedding) {
  const ToyFolder toy;
  LiveServer live(slow_options(toy));
  live.step_by_step();
  Connection connection(live.port());
  std::string body = long_prompt(8000, "");
  body.replace(body.find("prompt"), 6, "input");
  connection.send(post_text("/v1/embeddings", body));
  ASSERT_TRUE(live.eventually([](const EngineStats& s) { return s.running > 0; }));
  connection.close();
  EXPECT_TRUE(live.eventually(only_aborted(1)));
  live.expect_at_rest();
}

TEST(Aborts, MidStreamAndWithoutStream) {
  const ToyFolder toy;
  LiveServer live(slow_options(toy));
  live.step_by_step();
  int64_t aborted = 0;
  for (const bool stream : {true, false}) {
    const int64_t before = live.engine().stats().generation_tokens;
    Connection connection(live.port());
    connection.send(post_text("/v1/completions", cat(kEndless, stream ? kStream : "}")));
    ASSERT_TRUE(live.eventually([&](const EngineStats& s) { return s.generation_tokens > before + 20; }));
    if (stream) {
      EXPECT_TRUE(connection.read_until("data: "));
    }
    connection.close();
    EXPECT_TRUE(live.eventually(only_aborted(++aborted)));
  }
  live.expect_at_rest();
}

TEST(Aborts, OfOneThatWaits) {
  const ToyFolder toy;
  EngineOptions options = slow_options(toy);
  options.max_running_requests = 1;
  LiveServer live(options);
  live.step_by_step();
  Connection running(live.port());
  running.send(post_text("/v1/completions", cat(kEndless, kStream)));
  ASSERT_TRUE(live.eventually([](const EngineStats& s) { return s.generation_tokens > 0; }));
  EXPECT_TRUE(running.read_until("data: "));
  Connection waiting(live.port());
  waiting.send(post_text("/v1/completions", cat(kEndless, "}")));
  ASSERT_TRUE(live.eventually([](const EngineStats& s) { return s.waiting == 1; }));
  waiting.close();
  ASSERT_TRUE(live.eventually([](const EngineStats& s) { return s.waiting == 0 && s.running == 1 && s.aborted == 1; }));
  running.close();
  EXPECT_TRUE(live.eventually(only_aborted(2)));
  live.expect_at_rest();
}

TEST(Aborts, OfFiftyAtOnce) {
  const ToyFolder toy;
  LiveServer live(slow_options(toy));
  live.step_by_step();
  std::vector<std::unique_ptr<Connection>> connections;
  for (int i = 0; i < 50; ++i) {
    connections.push_back(std::make_unique<Connection>(live.port()));
    const std::string body = i % 3 == 0 ? long_prompt(2000 + i, ",\"max_tokens\":10000") : cat(kEndless, i % 3 == 1 ? kStream : "}");
    connections.back()->send(post_text("/v1/completions", body));
  }
  ASSERT_TRUE(live.eventually([](const EngineStats& s) { return s.running + s.waiting == 50; }));
  connections.clear();
  EXPECT_TRUE(live.eventually(only_aborted(50)));
  live.expect_at_rest();
}

TEST(Aborts, ByRequest) {
  const ToyFolder toy;
  LiveServer live(slow_options(toy));
  live.step_by_step();
  Connection mine(live.port()), stream(live.port()), other(live.port());
  mine.send(post_text("/v1/completions", cat(kEndless, R"(,"rid":"mine","n":2})")));
  stream.send(
      post_text("/generate", R"({"input_ids":[1],"stream":true,"rid":"s","sampling_params":{"max_new_tokens":60000,"ignore_eos":true}})"));
  other.send(post_text("/v1/completions", cat(kEndless, "}")));
  ASSERT_TRUE(live.eventually([](const EngineStats& s) { return s.running == 4; }));
  EXPECT_EQ(live.post("/abort_request", R"({"rid":"mine"})").body, R"({"aborted":2})");
  ASSERT_TRUE(live.eventually([](const EngineStats& s) { return s.running == 2 && s.aborted == 2; }));
  const Json answer = mine.read_response().json();
  for (const Json& choice : answer.find("choices")->as_array()) EXPECT_EQ(choice.find("finish_reason")->as_string(), "abort");
  EXPECT_EQ(live.post("/abort_request", R"({"abort_all":true})").body, R"({"aborted":2})");
  ASSERT_TRUE(live.eventually(only_aborted(4)));
  EXPECT_NE(stream.read_response().events().rbegin()[1].find(R"("type":"abort")"), std::string::npos);
  EXPECT_EQ(other.read_response().status, 200);
  live.expect_at_rest();
}

}  // namespace
}  // namespace lamina::server_test
