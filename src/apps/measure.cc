#include "apps/measure.h"

#include <algorithm>

#include "base/clock.h"
#include "base/cpu.h"

namespace lamina {
namespace {

constexpr size_t kReadBytes = size_t{512} << 20;  // far beyond any cache

/// When the tokens of one request came, in seconds.
struct Arrivals {
  std::vector<double> times;
  int cached = 0;
};

struct BatchShape {
  int batch, prompt, tokens;
};

/// The arrivals of `shape.batch` greedy requests that are submitted together; prompt `b` is that of stream `first_stream` + b.
Result<std::vector<Arrivals>> run_batch(Engine& engine, const BatchShape& shape, uint64_t first_stream) {
  std::vector<EngineRequest> requests;
  for (int b = 0; b < shape.batch; ++b) {
    const uint64_t stream = first_stream + static_cast<uint64_t>(b);
    EngineRequest& request = requests.emplace_back();
    request.prompt = random_prompt(shape.prompt, engine.config().vocab_size, stream);
    request.sampling.temperature = 0;
    request.sampling.ignore_eos = true;
    request.sampling.max_new_tokens = shape.tokens;
  }
  LAMINA_ASSIGN(const auto streams, engine.submit_together(std::move(requests)));
  std::vector<Arrivals> arrivals;
  for (const auto& stream : streams) {
    Arrivals& of_stream = arrivals.emplace_back();
    while (std::optional<EngineEvent> event = stream->next()) {
      if (!event->error.empty()) return Error{event->error};
      of_stream.cached = event->cached_tokens;
      if (event->token) of_stream.times.push_back(static_cast<double>(event->at_ns) / 1e9);
    }
  }
  return arrivals;
}

}  // namespace

Result<double> prefill_seconds(Engine& engine, const PrefillShape& shape, uint64_t seed) {
  constexpr uint64_t kPrefillStreams = uint64_t{1} << 32;  // away from those of decode_rate
  const double start = static_cast<double>(SteadyClock().now_ns()) / 1e9;
  LAMINA_ASSIGN(const auto arrivals, run_batch(engine, {shape.batch, shape.tokens, 1}, kPrefillStreams * (1 + seed)));
  double end = start;
  for (const Arrivals& request : arrivals) end = std::max(end, request.times.front());
  return end - start;
}

Result<DecodeRate> decode_rate(Engine& engine, const DecodeShape& shape) {
  if (shape.fill) LAMINA_TRY(run_batch(engine, {shape.batch, shape.context, 1}, 0));
  LAMINA_ASSIGN(const auto arrivals, run_batch(engine, {shape.batch, shape.context, shape.tokens + 1}, 0));
  // A request gets one token a step, so the one that began last tells how long the steps of the full batch took.
  const auto last = std::ranges::max_element(arrivals, {}, [](const Arrivals& request) { return request.times.front(); });
  double full_until = last->times.back();
  DecodeRate rate;
  for (const Arrivals& request : arrivals) {
    full_until = std::min(full_until, request.times.back());
    rate.cached += request.cached;
  }
  const auto full = std::ranges::count_if(last->times, [&](double t) { return t <= full_until; });
  if (full < 2) return error("the ", shape.batch, " requests never decoded together: ", shape.tokens, " tokens each are too few");
  const auto steps = static_cast<double>(full - 1);
  const double seconds = last->times[static_cast<size_t>(steps)] - last->times.front();
  rate.tokens_per_second = shape.batch * steps / seconds;
  rate.context = shape.context + steps / 2;
  return rate;
}

double prefill_flops(const Engine& engine, int64_t tokens) {
  const ModelConfig& config = engine.config();
  const double t = static_cast<double>(tokens);
  const double h = static_cast<double>(config.hidden_size), inner = static_cast<double>(config.intermediate_size);
  const double q = static_cast<double>(config.num_attention_heads * config.head_dim);
  const double kv = static_cast<double>(config.num_key_value_heads * config.head_dim);
  const double layer = 2 * t * (h * (q + 2 * kv) + q * h + 3 * h * inner) + 4 * q * t * (t + 1) / 2;
  return layer * static_cast<double>(config.num_hidden_layers) + 2 * h * static_cast<double>(config.vocab_size);
}

double decode_bytes(const Engine& engine, int batch, double context) {
  const ModelConfig& config = engine.config();
  double bytes = static_cast<double>(engine.info().weight_bytes);
  if (!config.tie_word_embeddings) {
    bytes -= static_cast<double>(config.vocab_size * config.hidden_size) * dtype_bytes(engine.info().dtype);
  }
  return bytes + static_cast<double>(engine.info().kv_bytes_per_token) * context * batch;
}

Result<Ceilings> Ceilings::create(const Engine& engine) {
  auto team = std::make_unique<ThreadTeam>(engine.info().threads, usable_cpus());
  LAMINA_ASSIGN(Buffer memory, kernels::make_read_memory(*team, kReadBytes));
  return Ceilings(kernels::table(engine.info().isa), std::move(team), std::move(memory));
}

Ceilings::Rates Ceilings::measure() {
  return {kernels::measure_read_bandwidth(kernels_, *team_, memory_) / 1e9, kernels::measure_dot_peak(kernels_, *team_) / 1e9};
}

}  // namespace lamina
