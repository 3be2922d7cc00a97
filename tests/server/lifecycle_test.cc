// A server from its first moment to its last.

#include <gtest/gtest.h>

#include "base/strings.h"
#include "tests/server/live_server.h"

namespace lamina::server_test {
namespace {

constexpr const char* kLong =
    R"({"prompt":[1,2],"max_tokens":3000,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}})";

TEST(Lifecycle, SaysThatItIsStarting) {
  server::ServerOptions options;
  options.port = 0;
  auto server = server::Server::listen(options);
  ASSERT_TRUE(server.ok());
  std::thread thread([&] { (*server)->run(false); });
  for (const char* path : {"/health", "/v1/models"}) {
    const Response response = get((*server)->port(), path);
    EXPECT_EQ(response.status, 503);
    EXPECT_NE(response.body.find("starting"), std::string::npos);
  }
  EXPECT_EQ(post((*server)->port(), "/v1/completions", R"({"prompt":"x"})").status, 503);
  (*server)->drain();
  thread.join();
}

TEST(Lifecycle, ATakenPortIsNamed) {
  server::ServerOptions options;
  options.port = 0;
  auto first = server::Server::listen(options);
  ASSERT_TRUE(first.ok());
  options.port = (*first)->port();
  const auto second = server::Server::listen(options);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message.find(cat("--port ", options.port)), std::string::npos) << second.error().message;
}

bool has_begun(const EngineStats& stats) { return stats.generation_tokens > 0; }

TEST(Lifecycle, DrainingEndsWhatRunsAndRefusesWhatComes) {
  const ToyFolder toy;
  server::ServerOptions options;
  options.drain_timeout = 3600;
  auto live = std::make_unique<LiveServer>(toy.options(), options);
  live->step_by_step();
  Connection running(live->port());
  running.send(post_text("/v1/completions", kLong));
  ASSERT_TRUE(live->eventually(has_begun));
  live->server().drain();
  Response health;
  do {
    health = live->get("/health");
  } while (health.status == 200);
  EXPECT_EQ(health.status, 503);
  EXPECT_NE(health.body.find("shutting down"), std::string::npos);
  EXPECT_EQ(live->post("/v1/completions", R"({"prompt":[1]})").status, 503);
  live->step_freely();
  std::thread ending([&] { live.reset(); });
  const Response response = running.read_response();
  EXPECT_EQ(response.chunks().back().find("usage")->find("completion_tokens")->as_integer(), 3000);
  ending.join();
}

TEST(Lifecycle, DrainingDoesNotWaitForEver) {
  const ToyFolder toy;
  server::ServerOptions options;
  options.drain_timeout = 0.1;
  auto live = std::make_unique<LiveServer>(toy.options(), options);
  live->step_by_step();
  Connection endless(live->port());
  endless.send(post_text("/v1/completions", R"({"prompt":[1],"max_tokens":60000,"ignore_eos":true,"stream":true})"));
  ASSERT_TRUE(live->eventually(has_begun));
  live.reset();
  EXPECT_EQ(endless.read_response().status, 0);
}

TEST(Lifecycle, HealthFailsWhileTheEngineMakesNoStep) {
  const ToyFolder toy;
  server::ServerOptions options;
  options.watchdog_timeout = 0.01;
  LiveServer live(toy.options(), options);
  live.step_by_step();
  Connection connection(live.port());
  connection.send(post_text("/v1/completions", R"({"prompt":[1,2],"max_tokens":1})"));
  Response health;
  do {
    health = live.get("/health");
  } while (health.status == 200);
  EXPECT_EQ(health.status, 503);
  EXPECT_NE(health.body.find("no step for 0.01 seconds"), std::string::npos) << health.body;
  live.step_freely();
  EXPECT_EQ(connection.read_response().status, 200);
  EXPECT_EQ(live.get("/health").status, 200);
}

TEST(Lifecycle, OptionsAreChecked) {
  const std::pair<server::ServerOptions, std::string> cases[] = {
      {{.port = -1}, "--port -1"},
      {{.port = 70000}, "--port 70000"},
      {{.sampling_defaults = "mine"}, "--sampling-defaults mine"},
      {{.drain_timeout = -1}, "--drain-timeout -1"},
      {{.watchdog_timeout = 0}, "--watchdog-timeout 0"},
  };
  for (const auto& [options, begins] : cases) {
    const Status status = validate(options);
    ASSERT_FALSE(status.ok());
    EXPECT_TRUE(status.error().message.starts_with(begins)) << status.error().message;
  }
  EXPECT_FALSE(server::Server::listen({.host = "no such host", .port = 0}).ok());
}

TEST(Lifecycle, SamplingDefaultsComeFromTheModelUnlessRefused) {
  const ToyFolder toy;
  toy.folder().write("generation_config.json", R"({"do_sample":true,"temperature":0.0,"top_k":1})");
  const std::string body = R"({"prompt":[1],"max_tokens":12,"ignore_eos":true})";
  const auto text = [&](const std::string& defaults, std::string_view request) {
    server::ServerOptions options;
    options.sampling_defaults = defaults;
    LiveServer live(toy.options(), options);
    return live.post("/v1/completions", request).json().find("choices")->as_array()[0].find("text")->as_string();
  };
  const std::string greedy = text("openai", R"({"prompt":[1],"max_tokens":12,"ignore_eos":true,"temperature":0})");
  EXPECT_EQ(text("model", body), greedy);
  EXPECT_NE(text("openai", body), greedy);
}

}  // namespace
}  // namespace lamina::server_test
