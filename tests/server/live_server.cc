#include "tests/server/live_server.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/strings.h"
#include "tests/support/toy_model.h"

namespace lamina::server_test {

LiveServer::LiveServer(EngineOptions engine, server::ServerOptions options) {
  options.port = 0;
  Result<std::unique_ptr<server::Server>> listening = server::Server::listen(std::move(options));
  EXPECT_TRUE(listening.ok()) << listening.error().message;
  server_ = std::move(*listening);
  thread_ = std::thread([this] { server_->run(false); });
  Result<std::unique_ptr<Engine>> started = Engine::start(engine);
  EXPECT_TRUE(started.ok()) << started.error().message;
  engine_ = std::move(*started);
  server_->serve(*engine_);
}

LiveServer::~LiveServer() {
  server_->drain();
  thread_.join();
  server_.reset();
  gate_.open();
  const EngineStats stats = engine_->stats();
  EXPECT_EQ(stats.pages_free + stats.pages_cached + stats.pages_held, stats.pages_total);
}

void LiveServer::step_by_step() {
  engine_->set_taps([this](int rank) { return rank == 0 ? &gate_ : nullptr; });
}

bool LiveServer::eventually(const std::function<bool(const EngineStats&)>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition(engine_->stats())) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    gate_.let_one();
    EXPECT_EQ(get("/health").status, 200);
  }
  return true;
}

void LiveServer::expect_at_rest() {
  EXPECT_TRUE(eventually([](const EngineStats& s) { return s.running == 0 && s.waiting == 0 && s.pages_held == 0; }));
  const EngineStats stats = engine_->stats();
  EXPECT_EQ(stats.pages_free + stats.pages_cached, stats.pages_total);
  step_freely();
  expect_good_request();
}

void LiveServer::expect_good_request() {
  const Response response = post("/v1/completions", R"({"prompt":[1,2,3],"max_tokens":2,"temperature":0,"ignore_eos":true})");
  EXPECT_EQ(response.status, 200) << response.body;
  const Json json = response.json();
  const Json* usage = json.find("usage");
  ASSERT_NE(usage, nullptr) << response.body;
  EXPECT_EQ(usage->find("completion_tokens")->as_integer(), 2);
}

EngineOptions demo_options() {
  EngineOptions options;
  options.model = kDemo;
  options.max_total_tokens = 16384;
  options.threads = 1;
  return options;
}

ToyFolder::ToyFolder(int64_t context) {
  fixture::ToyModel model = fixture::toy_model();
  model.config.set("max_position_embeddings", context);
  model.write(folder_);
  folder_.write("tokenizer.json", fixture::toy_tokenizer(259));
}

EngineOptions ToyFolder::options() const {
  EngineOptions options;
  options.model = folder_.path();
  options.max_total_tokens = 16384;
  options.threads = 1;
  return options;
}

}  // namespace lamina::server_test
