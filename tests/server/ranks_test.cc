// A server over many ranks: the same answers, and an orderly end when a rank fails.

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/strings.h"
#include "tests/server/live_server.h"

namespace lamina::server_test {
namespace {

std::string text_of(const Response& response) {
  EXPECT_EQ(response.status, 200) << response.body;
  return response.json().find("choices")->as_array()[0].find("text")->as_string();
}

EngineOptions at(const Topology& topology) {
  EngineOptions options = demo_options();
  options.dtype = "float32";
  options.kv_cache_dtype = "float32";
  options.topology = topology;
  return options;
}

TEST(ServerOverRanks, AnswersAsOneRankDoes) {
  const std::string body = R"({"prompt":"The glacier","max_tokens":24,"temperature":0})";
  std::string one;
  {
    const LiveServer live(at({}));
    one = text_of(live.post("/v1/completions", body));
  }
  EXPECT_GT(one.size(), 20u);
  for (const Topology& topology : {Topology{.tp_size = 2}, Topology{.pp_size = 2}, Topology{.tp_size = 2, .dp_attention = 2}}) {
    const LiveServer live(at(topology));
    EXPECT_EQ(text_of(live.post("/v1/completions", body)), one);
  }
}

TEST(ServerOverRanks, AFaultIsToldAtOnceAndEndsTheServer) {
  const ToyFolder toy;
  EngineOptions options = toy.options();
  options.topology.tp_size = 2;
  server::ServerOptions patient;
  patient.drain_timeout = 3600;
  LiveServer live(options, patient);
  live.step_by_step();
  Connection stream(live.port()), whole(live.port());
  const std::string body = R"("prompt":[1,2],"max_tokens":6000,"ignore_eos":true)";
  stream.send(post_text("/v1/completions", cat("{\"stream\":true,", body, "}")));
  whole.send(post_text("/v1/completions", cat("{", body, "}")));
  ASSERT_TRUE(live.eventually([](const EngineStats& stats) { return stats.running == 2 && stats.generation_tokens > 2; }));
  live.hold();
  live.engine().rank_fault().raise("rank 1 is gone");

  // The engine learns of it with the end of its step, and half a second later nobody listens any more.
  const Response health = live.get("/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_NE(health.body.find("rank 1 is gone"), std::string::npos) << health.body;
  EXPECT_EQ(live.post("/v1/completions", R"({"prompt":[1]})").status, 503);
  live.server().drain();  // as mpirun asks for when a rank has died
  const auto begin = std::chrono::steady_clock::now();
  live.step_freely();
  const Response cut = stream.read_response();
  EXPECT_NE(cut.events().back().find(R"({"error":)"), std::string::npos) << cut.body;
  EXPECT_NE(cut.events().back().find("rank 1 is gone"), std::string::npos) << cut.body;
  const Response failed = whole.read_response();
  EXPECT_EQ(failed.status, 500);
  EXPECT_NE(failed.error().find("rank 1 is gone"), std::string::npos);

  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (listens(live.port()) && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_FALSE(listens(live.port()));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(500));
}

}  // namespace
}  // namespace lamina::server_test
