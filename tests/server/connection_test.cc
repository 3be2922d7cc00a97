// What a connection may do, and what happens to one that misbehaves.

#include <gtest/gtest.h>

#include "base/strings.h"
#include "tests/server/live_server.h"

namespace lamina::server_test {
namespace {

constexpr const char* kTwoTokens = R"({"prompt":[1,2,3],"max_tokens":2,"temperature":0,"ignore_eos":true})";

/// Limits that a test can wait for. A client that is put off between its connection and its request is beyond `idle`: long, where it
/// matters.
server::ServerOptions impatient(double idle) {
  server::ServerOptions options;
  options.limits.header_seconds = 0.2;
  options.limits.body_seconds = 0.2;
  options.limits.idle_seconds = idle;
  return options;
}

TEST(Connections, ServeSeveralRequestsInTurn) {
  LiveServer live(demo_options());
  Connection connection(live.port());
  for (int i = 0; i < 3; ++i) {
    connection.send(post_text("/v1/completions", kTwoTokens));
    const Response response = connection.read_response();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.headers.at("connection"), "keep-alive");
    connection.send(get_text("/v1/models"));
    EXPECT_EQ(connection.read_response().status, 200);
  }
}

TEST(Connections, AnswerPipelinedRequestsInOrder) {
  LiveServer live(demo_options());
  Connection connection(live.port());
  std::string all;
  for (int i = 0; i < 20; ++i) {
    all += post_text("/v1/completions", cat(R"({"prompt":"x","max_tokens":2,"rid":"r)", i, R"("})"));
    all += post_text("/v1/completions", cat(R"({"prompt":"x","max_tokens":2,"stream":true,"rid":"s)", i, R"("})"));
    all += get_text("/health");
  }
  connection.send(all);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(connection.read_response().json().find("id")->as_string(), cat("r", i));
    EXPECT_EQ(connection.read_response().chunks().front().find("id")->as_string(), cat("s", i));
    EXPECT_EQ(connection.read_response().body, R"({"status":"ok"})");
  }
}

TEST(Connections, CloseWhenAskedTo) {
  LiveServer live(demo_options());
  Connection connection(live.port());
  connection.send(get_text("/v1/models", "Connection: close\r\n"));
  EXPECT_EQ(connection.read_response().headers.at("connection"), "close");
  EXPECT_TRUE(connection.closed());
}

TEST(Connections, SpeakTheOldVersionToo) {
  LiveServer live(demo_options());
  Connection plain(live.port());
  plain.send("GET /v1/models HTTP/1.0\r\n\r\n");
  EXPECT_EQ(plain.read_response().status, 200);
  EXPECT_TRUE(plain.closed());
  Connection stream(live.port());
  const std::string body = R"({"prompt":"x","max_tokens":2,"stream":true,"ignore_eos":true})";
  stream.send(cat("POST /v1/completions HTTP/1.0\r\nContent-Length: ", body.size(), "\r\n\r\n", body));
  const Response response = stream.read_response();
  EXPECT_EQ(response.headers.count("transfer-encoding"), 0u);
  EXPECT_EQ(response.events().back(), "[DONE]");
}

TEST(Connections, TakeABodyInChunks) {
  LiveServer live(demo_options());
  Connection connection(live.port());
  connection.send("POST /tokenize HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
  connection.send("a;name=value\r\n{\"prompt\":\r\n");
  connection.send("a\r\n\"glacier\"}\r\n0\r\nTrailer: x\r\n\r\n");
  EXPECT_EQ(connection.read_response().json().find("count")->as_integer(), 5);
}

TEST(Connections, SayContinueToWhoAsksFirst) {
  LiveServer live(demo_options());
  Connection connection(live.port());
  const std::string body = R"({"prompt":"glacier"})";
  connection.send(cat("POST /tokenize HTTP/1.1\r\nHost: t\r\nContent-Length: ", body.size(), "\r\nExpect: 100-continue\r\n\r\n"));
  EXPECT_TRUE(connection.read_until("HTTP/1.1 100 Continue\r\n\r\n"));
  connection.send(body);
  EXPECT_EQ(connection.read_response().status, 200);
  EXPECT_EQ(connection.interim(), 1);
}

TEST(Connections, RefuseAtOnceWhoAsksFirst) {
  server::ServerOptions options;
  options.api_key = "secret";
  LiveServer live(demo_options(), options);
  const auto refused = [&](std::string_view path, size_t length, std::string_view key) {
    Connection connection(live.port());
    connection.send(cat("POST ", path, " HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer ", key, "\r\nContent-Length: ", length,
                        "\r\nExpect: 100-continue\r\n\r\n"));
    const Response response = connection.read_response();
    EXPECT_EQ(connection.interim(), 0);
    return response.status;
  };
  EXPECT_EQ(refused("/tokenize", 20, "wrong"), 401);
  EXPECT_EQ(refused("/nothing", 20, "secret"), 404);
  EXPECT_EQ(refused("/tokenize", size_t{1} << 40, "secret"), 413);
}

TEST(Connections, NeedTheKeyExceptForHealth) {
  server::ServerOptions options;
  options.api_key = "secret";
  LiveServer live(demo_options(), options);
  const auto status = [&](std::string_view path, std::string_view header) {
    Connection connection(live.port());
    connection.send(get_text(path, header));
    return connection.read_response().status;
  };
  EXPECT_EQ(status("/health", ""), 200);
  for (const char* path : {"/v1/models", "/metrics", "/get_model_info", "/nothing"}) EXPECT_EQ(status(path, ""), 401) << path;
  for (const char* wrong : {"secret", "Bearer ", "Bearer secre", "Bearer secrets", "Basic secret"}) {
    EXPECT_EQ(status("/v1/models", cat("Authorization: ", wrong, "\r\n")), 401) << wrong;
  }
  EXPECT_EQ(status("/v1/models", "Authorization: Bearer secret\r\n"), 200);
}

TEST(Connections, MalformedRequestsGetOneErrorAndTheEnd) {
  LiveServer live(demo_options());
  const std::pair<std::string_view, int> cases[] = {
      {"hello\r\n\r\n", 400},
      {"GET\r\n\r\n", 400},
      {"GET /v1/models\r\n\r\n", 400},
      {"GET /v1/models HTTP/3.0\r\nHost: t\r\n\r\n", 505},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"GET /v1/models HTTP/1.1\r\n\r\n", 400},                        // no Host
      {"GET /v1/models HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},  // two
      {"GET models HTTP/1.1\r\nHost: t\r\n\r\n", 400},                 // no path
      {"GET /v1/models HTTP/1.1\r\nHost: t\r\nbroken header\r\n\r\n", 400},
      {"GET /v1/models HTTP/1.1\r\nHost: t\r\nA:\x01\r\n\r\n", 400},
      {"POST /tokenize HTTP/1.1\r\nHost: t\r\nContent-Length: x\r\n\r\n", 400},
      {"POST /tokenize HTTP/1.1\r\nHost: t\r\nContent-Length: -5\r\n\r\n", 400},
      {"POST /tokenize HTTP/1.1\r\nHost: t\r\nContent-Length: 99999999999999999999999\r\n\r\n", 400},
      {"POST /tokenize HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde", 400},
      {"POST /tokenize HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"POST /tokenize HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n", 400},
      {{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 15}, 400},  // TLS
  };
  for (const auto& [request, status] : cases) {
    SCOPED_TRACE(std::string(request));
    Connection connection(live.port());
    connection.send(request);
    const Response response = connection.read_response();
    EXPECT_EQ(response.status, status) << response.body;
    EXPECT_NE(response.error().find("|null|null"), std::string::npos);
    connection.close_sending();
    EXPECT_TRUE(connection.closed());
  }
  live.expect_at_rest();
}

TEST(Connections, SlowClientsAreToldAndClosed) {
  LiveServer live(demo_options(), impatient(3600));
  Connection slow_head(live.port()), slow_body(live.port());
  slow_head.send("POST /tokenize HTTP/1.1\r\nHost:");
  slow_body.send("POST /tokenize HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\n{\"prompt\"");
  EXPECT_EQ(slow_head.read_response().status, 408);
  EXPECT_EQ(slow_body.read_response().status, 408);
  live.expect_at_rest();
}

TEST(Connections, ComputingIsNotSlowAndNotIdle) {
  const ToyFolder toy;
  fixture::StepGate gate;
  server::ServerOptions options = impatient(0.2);
  options.port = 0;
  auto engine = Engine::start(toy.options());
  auto server = server::Server::listen(options);
  ASSERT_TRUE(server.ok() && engine.ok());
  (*engine)->set_taps([&](int) { return &gate; });
  (*server)->serve(**engine);
  Connection computing((*server)->port());  // the request is there before the server takes the connection
  computing.send(post_text("/v1/completions", R"({"prompt":[1],"max_tokens":30,"ignore_eos":true})"));
  Connection idle((*server)->port());
  std::thread thread([&] { (*server)->run(false); });
  EXPECT_TRUE(idle.closed());  // so the time of every limit is over
  gate.open();
  EXPECT_EQ(computing.read_response().status, 200);
  (*server)->drain();
  thread.join();
}

TEST(Connections, HalfClosedClientsGetTheirAnswer) {
  LiveServer live(demo_options());
  for (const bool stream : {false, true}) {
    Connection connection(live.port());
    connection.send(
        post_text("/v1/completions", cat(R"({"prompt":"x","max_tokens":200,"ignore_eos":true)", stream ? R"(,"stream":true})" : "}")));
    connection.close_sending();
    const Response response = connection.read_response();
    EXPECT_EQ(response.status, 200);
    if (stream) {
      EXPECT_EQ(response.events().back(), "[DONE]");
    }
    EXPECT_TRUE(connection.closed());
  }
  Connection cut_head(live.port()), cut_body(live.port()), silent(live.port());
  cut_head.send("POST /tokenize HTTP/1.1\r\nHo");
  cut_head.close_sending();
  EXPECT_EQ(cut_head.read_response().status, 400);
  cut_body.send("POST /tokenize HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\n{");
  cut_body.close_sending();
  EXPECT_EQ(cut_body.read_response().status, 400);
  silent.close_sending();
  EXPECT_TRUE(silent.closed());
  live.expect_at_rest();
}

TEST(Connections, BeyondTheLimitAreTurnedAway) {
  server::ServerOptions options;
  options.limits.max_connections = 2;
  LiveServer live(demo_options(), options);
  Connection first(live.port()), second(live.port());
  for (Connection* connection : {&first, &second}) {
    connection->send(get_text("/health"));
    EXPECT_EQ(connection->read_response().status, 200);
  }
  Connection third(live.port());
  const Response refused = third.read_response();
  EXPECT_EQ(refused.status, 503);
  EXPECT_NE(refused.body.find("connections are in use"), std::string::npos);
  first.send(get_text("/health"));
  EXPECT_EQ(first.read_response().status, 200);
}

TEST(Connections, ReadersThatStopReadingAreCancelled) {
  const ToyFolder toy;
  server::ServerOptions options;
  options.limits.write_seconds = 0.05;
  options.limits.send_bytes = 4096;
  EngineOptions engine = toy.options();
  engine.max_total_tokens = 65536;
  LiveServer live(engine, options);
  Connection deaf(live.port(), 4096);
  // More than the sockets hold within milliseconds, a last token within a minute: attention over tens of thousands of tokens is slow.
  deaf.send(post_text("/generate", R"({"input_ids":[1],"stream":true,"sampling_params":{"max_new_tokens":60000,"ignore_eos":true}})"));
  EXPECT_TRUE(live.eventually([](const EngineStats& s) { return s.aborted == 1 && s.running == 0; }));
  live.expect_at_rest();
}

}  // namespace
}  // namespace lamina::server_test
