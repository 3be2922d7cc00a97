// Many clients at once: every answer is that of the same request alone, among clients that vanish and requests that are none.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <random>

#include "base/file.h"
#include "base/strings.h"
#include "tests/server/live_server.h"

namespace lamina::server_test {
namespace {

struct Ask {
  std::string path, body;
};

/// Requests of every kind whose answers are determined: greedy, or with a seed.
std::vector<Ask> good_asks() {
  const std::string words[] = {"glacier", "violin", "harvest", "lantern", "telescope", "abbey"};
  std::vector<Ask> out;
  for (int i = 0; i < 6; ++i) {
    const std::string question = cat(R"("prompt":"<|user|>What is a )", words[i], R"(?<|end|><|assistant|>")");
    const std::string story = cat(R"("prompt":"Once upon a time, a )", words[i], R"( and a long, long walk through the forest")");
    const std::string seeded = cat(R"(,"temperature":1.5,"top_p":0.9,"seed":)", i);
    out.push_back({"/v1/completions", cat("{", question, R"(,"temperature":0,"max_tokens":24})")});
    out.push_back({"/v1/completions", cat("{", question, seeded, R"(,"max_tokens":20,"stream":true,"logprobs":2})")});
    out.push_back(
        {"/v1/completions", cat("{", story, seeded, R"(,"n":3,"max_tokens":16,"presence_penalty":0.5,"frequency_penalty":0.3})")});
    out.push_back({"/v1/completions", cat("{", story, R"(,"temperature":0,"max_tokens":2,"echo":true,"logprobs":1})")});
    out.push_back({"/v1/completions", cat("{", story, seeded, R"(,"max_tokens":100,"stop":["a","the"],"stream":true,"n":2})")});
    out.push_back({"/v1/completions", cat("{", story, seeded, R"(,"max_tokens":60,"ignore_eos":true,"logit_bias":{"7":3},"top_k":50})")});
    out.push_back(
        {"/generate", cat(R"({"input_ids":[[1,2,)", 3 + i, R"(],[5]],"return_logprob":true,"top_logprobs_num":2,"sampling_params":)",
                          R"({"temperature":0,"max_new_tokens":9,"ignore_eos":true}})")});
    out.push_back({"/v1/embeddings", cat(R"({"input":["a )", words[i], R"(",")", words[5 - i], R"("],"encoding_format":"base64"})")});
  }
  return out;
}

const std::string kBad[] = {
    "nonsense\r\n\r\n",
    "GET /v1/models HTTP/1.1\r\n\r\n",
    post_text("/v1/completions", "{"),
    post_text("/v1/completions", R"({"prompt":"x","temperature":-1})"),
    post_text("/v1/completions", R"({"prompt":[1,99999999]})"),
    post_text("/v1/completions", "{\"prompt\":\"\xff\"}"),
    post_text("/v1/chat/completions", R"({"messages":[]})"),
    post_text("/v1/embeddings", R"({"input":7})"),
    post_text("/nothing", "{}"),
    get_text("/v1/completions"),
    get_text("/health", cat("X: ", std::string(20000, 'x'), "\r\n")),
};

/// Leaves out what may differ between two answers to one request.
Json comparable(const Json& value) {
  if (value.is_array()) {
    Json out = Json::array();
    for (const Json& item : value.as_array()) out.push(comparable(item));
    return out;
  }
  if (!value.is_object()) return value;
  Json out = Json::object();
  for (const auto& [key, item] : value.as_object()) {
    const bool varies =
        key == "id" || key == "created" || key == "cached_tokens" || key == "e2e_latency" || (key == "seed" && !item.is_null());
    if (!varies) out.set(key, comparable(item));
  }
  return out;
}

/// An answer as one text; of a stream the chunks of each choice in a row, because choices may interleave differently.
std::string comparable(const Response& response) {
  if (response.status != 200) return cat("status ", response.status, " ", response.body);
  if (response.headers.at("content-type") == "application/json") return comparable(response.json()).dump();
  std::map<int64_t, std::string> choices;
  for (const Json& chunk : response.chunks()) {
    for (const Json& choice : chunk.find("choices")->as_array()) choices[choice.find("index")->as_integer()] += choice.dump();
  }
  std::string out;
  for (const auto& [index, text] : choices) out += text;
  return out;
}

constexpr int kLeastRounds = 3;  // of a client, however slow the machine

struct Counts {
  std::atomic<int64_t> answers{0}, wrong{0}, vanished{0}, refused{0};
};

int open_files() {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
}

class Load {
 public:
  explicit Load(const EngineOptions& options) : live_(options), files_(open_files()) {
    for (const Ask& ask : asks_) {
      EXPECT_TRUE(live_.engine().flush_cache());
      alone_.push_back(comparable(live_.post(ask.path, ask.body)));
      EXPECT_EQ(alone_.back().find("status "), std::string::npos) << ask.body << "\n" << alone_.back();
    }
  }

  void run(int clients, double seconds);

 private:
  using Clock = std::chrono::steady_clock;
  void client(int number, Clock::time_point end);
  void vanish(std::mt19937& random);
  void misbehave(std::mt19937& random);

  LiveServer live_;
  const int files_;  // open while there are no connections
  std::vector<Ask> asks_ = good_asks();
  std::vector<std::string> alone_;
  Counts counts_;
};

/// Sends a request that takes a while and closes without having read its answer.
void Load::vanish(std::mt19937& random) {
  Connection connection(live_.port());
  const bool stream = random() % 2 == 0;
  connection.send(post_text("/v1/completions", cat(R"({"prompt":"Once upon","max_tokens":450,"ignore_eos":true,"n":2,"temperature":1)",
                                                   stream ? R"(,"stream":true})" : "}")));
  const bool seen = stream && random() % 2 == 0;
  if (seen) connection.read_until("data: ");
  random() % 2 == 0 ? connection.close() : connection.reset();
  ++counts_.vanished;
}

void Load::misbehave(std::mt19937& random) {
  Connection connection(live_.port());
  connection.send(kBad[random() % std::size(kBad)]);
  const int status = connection.read_response().status;
  EXPECT_TRUE(status >= 400 && status < 500) << status;
  ++counts_.refused;
}

void Load::client(int number, Clock::time_point end) {
  std::mt19937 random(static_cast<uint32_t>(number));
  auto connection = std::make_unique<Connection>(live_.port());
  for (int round = 0; round < kLeastRounds || Clock::now() < end; ++round) {
    const uint32_t dice = random() % 20;
    if (dice == 0) {
      vanish(random);
    } else if (dice == 1) {
      misbehave(random);
    } else {
      const size_t which = random() % asks_.size();
      if (dice == 2) connection = std::make_unique<Connection>(live_.port());
      connection->send(post_text(asks_[which].path, asks_[which].body));
      const std::string answer = comparable(connection->read_response());
      ++counts_.answers;
      if (answer == alone_[which]) continue;
      ++counts_.wrong;
      ADD_FAILURE() << asks_[which].path << " " << asks_[which].body << "\nalone: " << alone_[which] << "\nnow:   " << answer;
      return;
    }
  }
}

/// Whether the server closes its side of every connection within a minute. Nobody asks it anything meanwhile: that opens another one.
bool come_down_to(int files) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (open_files() != files && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  return open_files() == files;
}

void Load::run(int clients, double seconds) {
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i) threads.emplace_back([this, i, end] { client(i, end); });
  for (std::thread& thread : threads) thread.join();
  live_.expect_at_rest();
  EXPECT_TRUE(come_down_to(files_)) << files_ << " files were open, now " << open_files();
  EXPECT_TRUE(live_.engine().flush_cache());
  const EngineStats stats = live_.engine().stats();
  EXPECT_EQ(stats.pages_free, stats.pages_total);
  std::printf(
      "%d clients, %.1f s: %lld answers, %lld wrong, %lld clients gone, %lld requests refused; engine: %lld requests, %lld aborted, "
      "%lld retracted, %lld cached tokens\n",
      clients, seconds, static_cast<long long>(counts_.answers), static_cast<long long>(counts_.wrong),
      static_cast<long long>(counts_.vanished), static_cast<long long>(counts_.refused), static_cast<long long>(stats.requests),
      static_cast<long long>(stats.aborted), static_cast<long long>(stats.retracted), static_cast<long long>(stats.cached_tokens));
  EXPECT_EQ(counts_.wrong, 0);
  EXPECT_GT(counts_.answers, clients);
}

/// A pool small enough that requests are retracted.
EngineOptions small_pool(const std::string& model) {
  EngineOptions options;
  options.model = model;
  options.max_total_tokens = 1024;
  options.max_running_requests = 48;
  return options;
}

/// LAMINA_LOAD_SECONDS, else 20.
double full_seconds() {
  const char* given = std::getenv("LAMINA_LOAD_SECONDS");
  return given == nullptr ? 20 : std::atof(given);
}

TEST(Load, AFewClientsForAMoment) { Load(small_pool(kDemo)).run(12, 1.0); }

TEST(Load, FullSixtyFourClientsOnTheDemo) { Load(small_pool(kDemo)).run(64, full_seconds()); }

TEST(Load, FullSixtyFourClientsOnTheStories) {
  const std::string stories = LAMINA_SOURCE_DIR "/../shared/models/stories260k";
  if (!is_directory(stories)) GTEST_SKIP() << stories << " is absent";
  Load(small_pool(stories)).run(64, full_seconds());
}

}  // namespace
}  // namespace lamina::server_test
