// Requests that are too large or too deep for a line of exchanges/*.txt. Each is refused, and then an ordinary one is answered.

#include <gtest/gtest.h>

#include "base/strings.h"
#include "tests/server/live_server.h"

namespace lamina::server_test {
namespace {

std::string repeated(std::string_view text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

TEST(BadInput, NestingWithoutEnd) {
  LiveServer live(demo_options());
  const std::string arrays = repeated("[", 100000), objects = repeated("{\"a\":", 100000);
  const std::string bodies[] = {arrays, arrays + repeated("]", 100000), objects, cat("{\"prompt\":", arrays, repeated("]", 100000), "}")};
  for (const std::string& body : bodies) {
    for (const char* path : {"/v1/completions", "/v1/chat/completions", "/generate"}) {
      const Response response = live.post(path, body);
      EXPECT_EQ(response.status, 400);
      EXPECT_NE(response.body.find("invalid_json"), std::string::npos) << response.body;
      live.expect_good_request();
    }
  }
}

TEST(BadInput, BodyOfThirtyMegabytes) {
  server::ServerOptions options;
  options.limits.refused_seconds = 3600;  // else a sender that is put off gets a reset after all
  LiveServer live(demo_options(), options);
  const std::string body = cat("{\"prompt\":\"", std::string(size_t{30} << 20, 'x'), "\"}");
  Connection announced(live.port());
  EXPECT_TRUE(announced.send(post_text("/v1/completions", body)));  // all of it can be sent: the refusal is not lost in a reset
  const Response response = announced.read_response();
  EXPECT_EQ(response.status, 413);
  EXPECT_NE(response.error().find("16777216 bytes"), std::string::npos);
  Connection chunked(live.port());
  chunked.send("POST /v1/completions HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n1e00000\r\n");
  EXPECT_EQ(chunked.read_response().status, 413);
  live.expect_at_rest();
}

TEST(BadInput, HeaderOf64Kilobytes) {
  LiveServer live(demo_options());
  const std::string requests[] = {
      get_text("/v1/models", cat("X: ", std::string(65536, 'x'), "\r\n")),
      get_text("/v1/models", repeated("X: y\r\n", 12000)),
      cat("GET /", std::string(65536, 'x'), " HTTP/1.1\r\n\r\n"),
      std::string(65536, 'x'),
  };
  for (const std::string& request : requests) {
    Connection connection(live.port());
    connection.send(request);
    const Response response = connection.read_response();
    EXPECT_TRUE(response.status == 431 || response.status == 400) << response.status << " " << request.substr(0, 30);
    live.expect_good_request();
  }
}

TEST(BadInput, PromptLongerThanTheContextGivesBothNumbers) {
  LiveServer live(demo_options());
  const auto ids = [](size_t count) { return cat("[", repeated("7,", count - 1), "7]"); };
  const auto status = [&](const std::string& path, const std::string& body) {
    const Response response = live.post(path, body);
    if (response.status == 400) {
      EXPECT_NE(response.body.find("context of 512 tokens"), std::string::npos) << response.body;
      EXPECT_NE(response.body.find("\"code\":\"context_length_exceeded\""), std::string::npos);
      live.expect_good_request();
    }
    return response.status;
  };
  EXPECT_EQ(status("/v1/completions", cat("{\"prompt\":", ids(511), ",\"max_tokens\":50}")), 200);
  EXPECT_EQ(status("/v1/completions", cat("{\"prompt\":", ids(512), ",\"max_tokens\":1}")), 400);
  EXPECT_EQ(status("/v1/completions", cat("{\"prompt\":", ids(512), ",\"max_tokens\":0,\"echo\":true}")), 200);
  EXPECT_EQ(status("/v1/completions", cat("{\"prompt\":[[1],", ids(5000), "]}")), 400);
  EXPECT_EQ(status("/v1/embeddings", cat("{\"input\":", ids(512), "}")), 200);
  EXPECT_EQ(status("/v1/embeddings", cat("{\"input\":", ids(513), "}")), 400);
  EXPECT_EQ(status("/generate", cat("{\"input_ids\":", ids(600), "}")), 400);
  const std::string long_message = cat("[{\"role\":\"user\",\"content\":\"", repeated("glacier ", 1000), "\"}]");
  EXPECT_EQ(status("/v1/chat/completions", cat("{\"messages\":", long_message, "}")), 400);
}

TEST(BadInput, PromptThatFitsTheContextButNeverThePool) {
  const ToyFolder toy;
  EngineOptions options = toy.options();
  options.max_total_tokens = 69 * 16;
  LiveServer live(options);
  const std::string ids = cat("[", repeated("7,", 1199), "7]");
  const Response response = live.post("/v1/completions", cat("{\"prompt\":", ids, ",\"max_tokens\":24}"));
  EXPECT_EQ(response.status, 400) << response.body;
  EXPECT_NE(response.error().find("|prompt|"), std::string::npos) << response.body;
  live.expect_at_rest();
}

TEST(BadInput, NothingToBeginWith) {
  const ToyFolder toy;  // whose tokenizer puts no token before a text
  LiveServer live(toy.options());
  for (const char* prompt : {"\"\"", "[\"\"]", "[]", "[[]]"}) {
    const Response response = live.post("/v1/completions", cat("{\"prompt\":", prompt, "}"));
    EXPECT_EQ(response.status, 400) << prompt;
    EXPECT_NE(response.error().find("|prompt|"), std::string::npos) << response.body;
    live.expect_good_request();
  }
  EXPECT_EQ(live.post("/v1/embeddings", R"({"input":""})").status, 400);
  EXPECT_EQ(live.post("/v1/chat/completions", R"({"messages":[]})").status, 400);
}

TEST(BadInput, TooManyAnswersAtOnce) {
  LiveServer live(demo_options());
  const Response response = live.post("/v1/completions", cat("{\"n\":128,\"prompt\":[", repeated("\"a\",", 99), "\"a\"]}"));
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(response.error().find("12800"), std::string::npos) << response.body;
  live.expect_at_rest();
}

TEST(BadInput, AQueueAtItsLimitIsBusyAndNotWrong) {
  const ToyFolder toy;
  EngineOptions options = toy.options();
  options.max_running_requests = 1;
  options.max_queued_requests = 2;
  LiveServer live(options);
  live.step_by_step();  // nobody makes room in the queue
  const std::string body = R"({"prompt":[1],"n":8,"max_tokens":2000,"ignore_eos":true})";
  const Response response = live.post("/v1/completions", body);
  EXPECT_EQ(response.status, 503) << response.body;
  EXPECT_NE(response.error().find("|null|queue_full"), std::string::npos) << response.body;
  live.expect_at_rest();
}

TEST(BadInput, ManyFieldsAndLongNames) {
  LiveServer live(demo_options());
  std::string body = "{";
  for (int i = 0; i < 20000; ++i) body += cat("\"field", i, "\":", i, ",");
  EXPECT_EQ(live.post("/v1/completions", body + "\"prompt\":\"x\",\"max_tokens\":1}").status, 200);
  const Response response = live.post("/v1/completions", cat(R"({"prompt":"x","model":")", std::string(2000, 'm'), "\"}"));
  EXPECT_EQ(response.status, 400);
  EXPECT_LT(response.body.size(), 500u);
  live.expect_at_rest();
}

}  // namespace
}  // namespace lamina::server_test
