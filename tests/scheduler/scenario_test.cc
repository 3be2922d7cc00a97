// Runs scenarios.txt.

#include <gtest/gtest.h>

#include <deque>
#include <fstream>
#include <map>
#include <sstream>

#include "base/strings.h"
#include "scheduler/scheduler.h"

namespace lamina {
namespace {

constexpr TokenId kToken = 7;

/// "key=value" words of a line; a word without '=' has the value "1".
std::map<std::string, std::string> words_of(const std::string& text) {
  std::map<std::string, std::string> words;
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    const size_t equals = word.find('=');
    words[word.substr(0, equals)] = equals == std::string::npos ? "1" : word.substr(equals + 1);
  }
  return words;
}

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

SchedulerConfig config_of(std::map<std::string, std::string> words) {
  const auto number = [&](const char* key, int fallback) { return words.contains(key) ? std::stoi(words[key]) : fallback; };
  SchedulerConfig config;
  config.kv = {number("pages", 100), number("page_size", 4)};
  config.chunked_prefill_size = number("chunk", 512);
  config.max_running_requests = number("running", 8);
  config.context_length = number("context", 0);
  if (words.contains("eos")) config.eos_token_ids = {number("eos", 0)};
  if (words["rope"] == "admission") config.rope_rule = RopeLengthRule::kAtAdmission;
  if (words["rope"] == "switch") config.rope_rule = RopeLengthRule::kSwitchAtOriginal;
  config.rope_original_length = number("original", 0);
  config.prefix_cache = words.contains("cache");
  config.policy = words.contains("lpm") ? SchedulePolicy::kLpm : SchedulePolicy::kFcfs;
  config.new_token_ratio = number("ratio", 0) / 100.0;
  config.min_new_token_ratio = config.new_token_ratio;
  config.mixed_prefill_size = number("mixed", 0);
  config.max_queued_requests = number("queue", 0);
  config.plans_in_flight = number("plans", 1);
  config.dp_ranks = number("dp", 1);
  config.draw_seed = [] { return uint64_t{1}; };
  return config;
}

SchedulerRequest request_of(const std::string& text) {
  auto words = words_of(text);
  SchedulerRequest request;
  request.id = RequestId(std::stoll(text));
  request.prompt.assign(static_cast<size_t>(std::stoi(words["prompt"])), 5);
  if (words.contains("new")) request.sampling.max_new_tokens = std::stoi(words["new"]);
  if (words.contains("stop")) request.sampling.stop_token_ids = {std::stoi(words["stop"])};
  request.sampling.ignore_eos = words.contains("ignore_eos");
  request.all_logits = words.contains("logits");
  request.pool = words.contains("pool");
  return request;
}

std::string plan_text(const StepPlan& plan, bool with_rank) {
  std::string text;
  for (const RequestId id : plan.released) text += cat(text.empty() ? "" : " ", "- ", id.value);
  for (const StepEntry& entry : plan.entries) {
    text += cat(text.empty() ? "" : " ", entry.request.value, ":", entry.prefix_len, "+", entry.token_count);
    text += cat(entry.sample ? "s" : "", entry.all_logits ? "l" : "", entry.pool ? "p" : "");
    if (entry.rope_length != 0) text += cat("@", entry.rope_length);
    if (with_rank) text += cat("#", entry.dp_rank);
  }
  return text;
}

std::string events_text(const std::vector<RequestEvent>& events) {
  std::string text;
  for (const RequestEvent& event : events) {
    text += cat(text.empty() ? "" : " ", event.request.value, event.token ? "+" : "");
    if (event.finish != FinishReason::kNone) text += cat(".", finish_reason_name(event.finish));
  }
  return text;
}

class Scenario {
 public:
  explicit Scenario(const SchedulerConfig& config) : several_ranks_(config.dp_ranks > 1), scheduler_(config) {}

  void run(const std::string& command, const std::string& rest) {
    if (command == "submit") {
      const Status status = scheduler_.submit(request_of(rest));
      EXPECT_TRUE(status.ok()) << status.error().message;
    } else if (command == "refuse") {
      const size_t colon = rest.find(" : ");
      const Status status = scheduler_.submit(request_of(rest.substr(0, colon)));
      ASSERT_FALSE(status.ok());
      EXPECT_NE(status.error().message.find(rest.substr(colon + 3)), std::string::npos) << status.error().message;
    } else if (command == "cancel") {
      scheduler_.cancel(RequestId(std::stoll(rest)));
    } else if (command == "cancel_in_flight") {
      in_flight_cancels_.push_back(RequestId(std::stoll(rest)));
    } else if (command == "step") {
      step(rest);
    } else if (command == "begin") {
      begin(trimmed(rest.substr(1)));
    } else if (command == "end") {
      const size_t bar = rest.find('|');
      end(rest.substr(0, bar), trimmed(rest.substr(bar + 1)));
    } else if (command == "nothing") {
      StepPlan plan;
      scheduler_.next_step(plan);
      EXPECT_TRUE(plan.empty()) << plan_text(plan, several_ranks_);
    } else {
      FAIL() << "unknown command " << command;
    }
  }

  void expect_finished() {
    EXPECT_TRUE(scheduler_.idle());
    const KvPages pages = scheduler_.pages();
    EXPECT_EQ(pages.held, 0);
    EXPECT_EQ(pages.free + pages.cached, pages.total);
    StepPlan plan;
    scheduler_.next_step(plan);
    EXPECT_TRUE(plan.empty());
  }

 private:
  void step(const std::string& rest) {
    const std::vector<std::string> parts = split(rest, '|');
    ASSERT_EQ(parts.size(), 3U) << rest;
    begin(trimmed(parts[1]));
    end(parts[0], trimmed(parts[2]));
  }

  void begin(const std::string& expected) {
    StepPlan plan;
    scheduler_.next_step(plan);
    EXPECT_EQ(plan_text(plan, several_ranks_), expected);
    ASSERT_FALSE(plan.empty());
    plans_.push_back(std::move(plan));
    for (const RequestId id : std::exchange(in_flight_cancels_, {})) scheduler_.cancel(id);
  }

  void end(const std::string& given_tokens, const std::string& expected) {
    ASSERT_FALSE(plans_.empty());
    auto tokens = words_of(given_tokens);
    StepResult result;
    result.step = plans_.front().step;
    for (const StepEntry& entry : plans_.front().entries) {
      StepOutput output;
      output.request = entry.request;
      const auto given = tokens.find(std::to_string(entry.request.value));
      if (entry.sample) output.token = given == tokens.end() ? kToken : std::stoi(given->second);
      result.outputs.push_back(output);
    }
    plans_.pop_front();
    std::vector<RequestEvent> events;
    scheduler_.complete(result, events);
    EXPECT_EQ(events_text(events), expected);
  }

  bool several_ranks_;
  Scheduler scheduler_;
  std::deque<StepPlan> plans_;  // in flight
  std::vector<RequestId> in_flight_cancels_;
};

TEST(Scheduler, PlansAsTheScenariosSay) {
  std::ifstream file(LAMINA_SOURCE_DIR "/tests/scheduler/scenarios.txt");
  ASSERT_TRUE(file.good());
  std::optional<Scenario> scenario;
  std::string name, line;
  bool finished = true;
  int cases = 0;
  const auto close = [&] {
    SCOPED_TRACE(name);
    if (scenario && finished) scenario->expect_finished();
    scenario.reset();
  };
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.starts_with("#")) continue;
    if (line.empty()) {
      close();
      continue;
    }
    const std::string command = line.substr(0, line.find(' ')), rest = line.substr(std::min(line.size(), command.size() + 1));
    SCOPED_TRACE(cat("line ", number, " of case ", name));
    if (command == "case") {
      close();
      name = rest, finished = true, ++cases;
    } else if (command == "unfinished") {
      finished = false;
    } else {
      if (!scenario) scenario.emplace(config_of(command == "config" ? words_of(rest) : words_of("")));
      if (command != "config") scenario->run(command, rest);
    }
  }
  close();
  EXPECT_GE(cases, 20);
}

}  // namespace
}  // namespace lamina
