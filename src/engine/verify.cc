#include "engine/verify.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/log.h"

namespace lamina {
namespace {

/// What a prompt got.
struct Run {
  std::vector<float> logits;  // [prompt, vocab]
  std::vector<TokenId> tokens;
  std::vector<double> logprobs;  // of `tokens`
};

Result<std::unique_ptr<Engine>> start(const EngineOptions& options) {
  LAMINA_ASSIGN(std::unique_ptr<Engine> engine, Engine::start(options));
  log_info(engine->info().start_line());
  return engine;
}

Result<Run> collect(RequestStream& stream) {
  Run run;
  while (std::optional<EngineEvent> event = stream.next()) {
    if (!event->error.empty()) return Error{event->error};
    run.logits.insert(run.logits.end(), event->prompt_logits.begin(), event->prompt_logits.end());
    if (event->token) run.tokens.push_back(*event->token);
    if (event->logprob) run.logprobs.push_back(event->logprob->logprob);
  }
  return run;
}

Result<std::vector<Run>> run_all(Engine& engine, const Prompts& prompts, int new_tokens) {
  std::vector<EngineRequest> requests;
  for (const std::vector<TokenId>& prompt : prompts) {
    EngineRequest& request = requests.emplace_back(EngineRequest{.prompt = prompt, .sampling = {}, .all_logits = true});
    request.sampling.temperature = 0;
    request.sampling.ignore_eos = true;
    request.sampling.max_new_tokens = new_tokens;
    request.sampling.top_logprobs = 0;
  }
  LAMINA_ASSIGN(const auto streams, engine.submit_together(std::move(requests)));
  std::vector<Run> runs;
  for (const auto& stream : streams) {
    LAMINA_ASSIGN(Run run, collect(*stream));
    runs.push_back(std::move(run));
  }
  return runs;
}

/// NaN and rows that are missing count as infinitely far.
double distance(double a, double b) {
  const double apart = std::abs(a - b);
  return std::isnan(apart) ? std::numeric_limits<double>::infinity() : apart;
}

size_t argmax(const float* row, size_t count) { return static_cast<size_t>(std::max_element(row, row + count) - row); }

/// Adds one prompt to the report; its own largest difference.
double compare(const Run& expected, const Run& got, size_t vocab, VerifyReport& report) {
  double worst = expected.logits.size() == got.logits.size() ? 0 : std::numeric_limits<double>::infinity();
  const size_t values = std::min(expected.logits.size(), got.logits.size());
  for (size_t begin = 0; begin < values; begin += vocab) {
    for (size_t i = begin; i < begin + vocab; ++i) {
      worst = std::max(worst, distance(expected.logits[i], got.logits[i]));
      report.largest_logit = std::max(report.largest_logit, std::abs(static_cast<double>(expected.logits[i])));
    }
    report.argmax_equal &= argmax(&expected.logits[begin], vocab) == argmax(&got.logits[begin], vocab);
    ++report.positions;
  }
  report.max_abs_diff = std::max(report.max_abs_diff, worst);
  ++report.prompts;
  report.new_tokens += std::ssize(expected.tokens);
  for (size_t t = 0; t < std::min(expected.tokens.size(), got.tokens.size()); ++t) {
    const double apart = distance(expected.logprobs[t], got.logprobs[t]);
    report.max_logprob_diff = std::max(report.max_logprob_diff, apart);
    worst = std::max(worst, apart / 2);
    if (expected.tokens[t] != got.tokens[t]) break;  // a tie: both are then equally likely
    ++report.new_tokens_equal;
  }
  return worst;
}

/// A copy whose last chunk has more than one row, so that it is not padded between attention-DP ranks.
std::vector<TokenId> for_taps(std::vector<TokenId> prompt, int chunk) {
  if (prompt.size() > 1 && chunk > 1 && prompt.size() % static_cast<size_t>(chunk) == 1) prompt.pop_back();
  return prompt;
}

Status record(const EngineOptions& options, const std::vector<TokenId>& prompt, TapRecorder& recorder) {
  LAMINA_ASSIGN(const std::unique_ptr<Engine> engine, start(options));
  engine->set_taps([&](int rank) { return recorder.sink(rank); });
  LAMINA_TRY(run_all(*engine, {prompt}, 0));
  engine->set_taps([](int) { return nullptr; });
  return {};
}

Result<FirstDifference> find_first_difference(const VerifyRequest& request, const std::vector<TokenId>& prompt, const VerifyReport& report,
                                              const EngineInfo& info, int64_t layers) {
  TapRecorder expected, got;
  const std::vector<TokenId> shown = for_taps(prompt, request.reference.chunked_prefill_size);
  LAMINA_TRY(record(request.reference, shown, expected));
  LAMINA_TRY(record(request.candidate, shown, got));
  const auto found = TapRecorder::first_difference(expected, got, verify_bounds(info).residual);
  return found.value_or(FirstDifference{layers, "logits", report.max_abs_diff});
}

}  // namespace

VerifyBounds verify_bounds(const EngineInfo& info) {
  const bool exact = info.dtype == DType::kF32 && info.kv_dtype == DType::kF32 && !info.quantised_inputs;
  return exact ? VerifyBounds{1e-4, 1e-5} : VerifyBounds{0x1p-6, 0x1p-6};
}

Result<VerifyReport> verify(const VerifyRequest& request) {
  Prompts prompts;
  std::vector<Run> expected;
  EngineInfo info;
  int64_t layers = 0;
  size_t vocab = 0;
  {
    LAMINA_ASSIGN(const std::unique_ptr<Engine> engine, start(request.reference));
    LAMINA_ASSIGN(prompts, request.prompts(*engine));
    LAMINA_ASSIGN(expected, run_all(*engine, prompts, request.new_tokens));
    info = engine->info();
    layers = engine->config().num_hidden_layers;
    vocab = static_cast<size_t>(engine->config().vocab_size);
  }
  std::vector<Run> got;
  {
    LAMINA_ASSIGN(const std::unique_ptr<Engine> engine, start(request.candidate));
    LAMINA_ASSIGN(got, run_all(*engine, prompts, request.new_tokens));
  }
  VerifyReport report;
  size_t worst = 0;
  double worst_distance = -1;
  for (size_t p = 0; p < prompts.size(); ++p) {
    const double apart = compare(expected[p], got[p], vocab, report);
    if (apart > worst_distance) worst = p, worst_distance = apart;
  }
  report.tolerance = verify_bounds(info).logits * report.largest_logit;
  if (report.ok()) return report;
  LAMINA_ASSIGN(report.first_difference, find_first_difference(request, prompts[worst], report, info, layers));
  return report;
}

}  // namespace lamina
