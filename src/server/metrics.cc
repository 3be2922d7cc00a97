#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <chrono>
#include <mutex>
#include <sstream>

#include "base/strings.h"

namespace lamina::server {
namespace {

using Clock = std::chrono::steady_clock;

const prometheus::Histogram::BucketBoundaries kFirstToken = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,
                                                             .75,  1,    2.5, 5,   7.5, 10,  15,  20, 25,  30};
const prometheus::Histogram::BucketBoundaries kNextToken = {.001, .0025, .005, .0075, .01, .015, .02, .03, .04, .05,
                                                            .075, .1,    .15,  .2,    .3,  .4,   .5,  .75, 1,   2.5};
const prometheus::Histogram::BucketBoundaries kRequest = {.1, .2, .4, .8, 1, 2, 5, 10, 20, 40, 60, 80, 100, 150, 200, 400};

/// A total of the engine, shown as a counter.
struct Total {
  const char* name;
  const char* help;
  int64_t EngineStats::* value;
};

constexpr Total kTotals[] = {
    {"prompt_tokens_total", "Tokens of prompts.", &EngineStats::prompt_tokens},
    {"generation_tokens_total", "Tokens generated.", &EngineStats::generation_tokens},
    {"cached_tokens_total", "Tokens of prompts that the prefix cache had.", &EngineStats::cached_tokens},
    {"num_requests_total", "Requests given to the engine; each choice is one.", &EngineStats::requests},
    {"num_aborted_requests_total", "Requests that were cancelled or failed.", &EngineStats::aborted},
    {"num_retracted_requests_total", "Requests that had to wait again because the KV pool was full.", &EngineStats::retracted},
    {"evicted_tokens_total", "Cached tokens that made room for others.", &EngineStats::evicted_tokens},
    {"scheduler_loop_iterations_total", "Steps of the engine.", &EngineStats::steps},
};

struct Level {
  const char* name;
  const char* help;
  double (*value)(const EngineStats& stats, int page_size);
};

double tokens(int64_t pages, int page_size) { return static_cast<double>(pages * page_size); }
double ratio(int64_t part, int64_t whole) { return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole); }

constexpr Level kLevels[] = {
    {"num_running_reqs", "Requests being computed.", [](const EngineStats& s, int) { return double(s.running); }},
    {"num_queue_reqs", "Requests that wait.", [](const EngineStats& s, int) { return double(s.waiting); }},
    {"kv_available_tokens", "Free tokens of the KV pool.", [](const EngineStats& s, int p) { return tokens(s.pages_free, p); }},
    {"kv_evictable_tokens", "Cached tokens that no request holds.", [](const EngineStats& s, int p) { return tokens(s.pages_cached, p); }},
    {"kv_used_tokens", "Tokens that requests hold.", [](const EngineStats& s, int p) { return tokens(s.pages_held, p); }},
    {"num_used_tokens", "As kv_used_tokens.", [](const EngineStats& s, int p) { return tokens(s.pages_held, p); }},
    {"token_usage", "Share of the KV pool that requests hold.",
     [](const EngineStats& s, int) { return ratio(s.pages_held, s.pages_total); }},
    {"cache_hit_rate", "Share of all prompt tokens that the prefix cache had.",
     [](const EngineStats& s, int) { return ratio(s.cached_tokens, s.prompt_tokens); }},
};

}  // namespace

struct Metrics::Impl {
  prometheus::Registry registry;
  prometheus::Labels labels;
  std::vector<prometheus::Counter*> totals;
  std::vector<prometheus::Gauge*> levels;
  prometheus::Gauge* throughput = nullptr;
  prometheus::Histogram* first_token = nullptr;
  prometheus::Histogram* next_token = nullptr;
  prometheus::Histogram* request = nullptr;
  prometheus::Family<prometheus::Counter>* responses = nullptr;
  std::mutex mutex;  // guards what follows: scrapes may come together
  EngineStats last;
  Clock::time_point last_time = Clock::now();

  prometheus::Gauge* gauge(const char* name, const char* help) {
    return &prometheus::BuildGauge().Name(cat("lamina_", name)).Help(help).Labels(labels).Register(registry).Add({});
  }
  prometheus::Histogram* histogram(const char* name, const char* help, const prometheus::Histogram::BucketBoundaries& buckets) {
    return &prometheus::BuildHistogram().Name(cat("lamina_", name)).Help(help).Labels(labels).Register(registry).Add({}, buckets);
  }
};

Metrics::Metrics(const std::string& model_name) : impl_(std::make_unique<Impl>()) {
  Impl& m = *impl_;
  m.labels = {{"model_name", model_name}};
  for (const Total& total : kTotals) {
    auto& family = prometheus::BuildCounter().Name(cat("lamina_", total.name)).Help(total.help).Labels(m.labels).Register(m.registry);
    m.totals.push_back(&family.Add({}));
  }
  for (const Level& level : kLevels) m.levels.push_back(m.gauge(level.name, level.help));
  m.throughput = m.gauge("gen_throughput", "Tokens generated a second since the metrics were last read.");
  m.first_token = m.histogram("time_to_first_token_seconds", "From a request's arrival to its first token.", kFirstToken);
  m.next_token = m.histogram("inter_token_latency_seconds", "Between two tokens of a choice.", kNextToken);
  m.request = m.histogram("e2e_request_latency_seconds", "From a request's arrival to its end.", kRequest);
  m.responses = &prometheus::BuildCounter()
                     .Name("lamina_http_responses_total")
                     .Help("Answers by endpoint, method and status.")
                     .Labels(m.labels)
                     .Register(m.registry);
}

Metrics::~Metrics() = default;

void Metrics::first_token(double seconds) { impl_->first_token->Observe(seconds); }
void Metrics::next_token(double seconds) { impl_->next_token->Observe(seconds); }
void Metrics::request_end(double seconds) { impl_->request->Observe(seconds); }

void Metrics::response(std::string_view endpoint, std::string_view method, int status) {
  impl_->responses->Add({{"endpoint", std::string(endpoint)}, {"method", std::string(method)}, {"status_code", std::to_string(status)}})
      .Increment();
}

std::string Metrics::text(const EngineStats& stats, int page_size) {
  Impl& m = *impl_;
  {
    const std::lock_guard lock(m.mutex);
    for (size_t i = 0; i < m.totals.size(); ++i) {
      m.totals[i]->Increment(static_cast<double>(stats.*kTotals[i].value - m.last.*kTotals[i].value));
    }
    for (size_t i = 0; i < m.levels.size(); ++i) m.levels[i]->Set(kLevels[i].value(stats, page_size));
    const Clock::time_point now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - m.last_time).count();
    if (seconds > 0) m.throughput->Set(static_cast<double>(stats.generation_tokens - m.last.generation_tokens) / seconds);
    m.last = stats;
    m.last_time = now;
  }
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, m.registry.Collect());
  return out.str();
}

}  // namespace lamina::server
