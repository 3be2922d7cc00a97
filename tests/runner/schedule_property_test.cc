// Random schedules of random requests on real models: every request gets, to the bit, what it gets alone in a fresh engine.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "base/strings.h"
#include "layers/attention.h"
#include "tests/runner/rig.h"

namespace lamina {
namespace {

using testing::Answer;
using testing::Rig;
using testing::RigOptions;

/// Schedules in which something happened at least once.
struct Counters {
  int schedules = 0, requests = 0, compared = 0;
  int prefix_hit = 0, hit_inside_page = 0, chunk_inside_page = 0, mixed = 0, cancel_in_prefill = 0, retraction = 0;
  int above_12_rows = 0, above_32_rows = 0;
  int idle_rank = 0, padded = 0, ragged = 0;  // of steps with a decode, at several attention-DP ranks
  int two_in_flight = 0;                      // plans
  int logits = 0, pooled = 0;                 // requests
  int different = 0;                          // requests that got something else
};

class Schedule {
 public:
  Schedule(uint32_t seed, const RigOptions& base) : random_(seed), options_(draw_options(base)), rig_(options_) {}

  void set_fault(std::function<void(StepPlan&)> fault) { fault_ = std::move(fault); }

  void run(Counters& counters) {
    const int total = pick(4, 14);
    int submitted = 0;
    while (submitted < total || !rig_.scheduler().idle()) {
      while (submitted < total && chance(40)) submit(++submitted);
      if (chance(4)) cancel_one();
      rig_.step([this](StepPlan& plan) {
        if (fault_) fault_(plan);
        observe(plan);
      });
      ASSERT_FALSE(rig_.fault().raised()) << rig_.fault().message();
      check_ledger();
    }
    compare(counters);
    count(counters);
  }

 private:
  bool chance(uint32_t percent) { return random_() % 100 < percent; }
  int pick(int low, int high) { return low + static_cast<int>(random_() % static_cast<uint32_t>(high - low + 1)); }
  int one_of(std::initializer_list<int> values) { return values.begin()[random_() % values.size()]; }

  RigOptions draw_options(RigOptions options) {
    static constexpr const char* kModels[] = {"llama-gqa", "qwen3", "mistral-window", "phi3-longrope-crossing"};
    const char* drawn = kModels[random_() % std::size(kModels)];
    if (options.model.empty()) options.model = drawn;
    if (options.kv_cache_dtype == "auto") options.kv_cache_dtype = chance(50) ? "float32" : "bf16";
    options.dtype = chance(30) ? "float32" : "auto";
    const bool one = options.topology.world_size() == 1;
    options.processes = chance(30);
    options.threads = one ? pick(1, 2) : chance(15) ? 2 : 1;
    options.boundary_plan = chance(50) ? "fused" : "reference";
    options.boundary_rows = std::array{"auto", "replicated", "scattered"}[random_() % 3];
    options.dp_padding = std::array{"auto", "auto", "padded", "ragged"}[random_() % 4];
    options.page_size = one_of({1, 4, 16});
    options.chunked_prefill_size = one_of({5, 16, 48, 128});
    options.max_running_requests = one_of({2, 6, 16, 16, 40});
    options.mixed_prefill_size = one_of({0, 0, 8});
    options.policy = chance(30) ? SchedulePolicy::kLpm : SchedulePolicy::kFcfs;
    options.max_total_tokens = one_of({128, 160, 1024});
    options.new_token_ratio = one_of({0, 0, 70}) / 100.0;
    return options;
  }

  std::vector<TokenId> prompt() {
    std::vector<TokenId> ids(static_cast<size_t>(pick(1, chance(20) ? 90 : 40)));
    const uint32_t family = random_() % 3;
    const auto shared = static_cast<size_t>(pick(0, static_cast<int>(ids.size())));
    for (size_t i = 0; i < ids.size(); ++i) {
      ids[i] = 3 + static_cast<TokenId>(i < shared ? (i * 13 + family * 31) % 200 : random_() % 200);
    }
    return ids;
  }

  void submit(int id) {
    SchedulerRequest request;
    request.id = RequestId(id);
    request.prompt = chance(20) && !requests_.empty() ? requests_.back().prompt : prompt();  // n answers to one prompt
    SamplingParams& sampling = request.sampling;
    sampling.seed = random_();
    sampling.max_new_tokens = pick(1, 30);
    sampling.temperature = chance(50) ? 0.0 : 0.8;
    sampling.choice = pick(0, 2);
    if (chance(30)) sampling.top_p = 0.9;
    if (chance(30)) sampling.top_k = one_of({1, 5, 20});
    if (chance(20)) sampling.repetition_penalty = 1.3;
    if (chance(20)) sampling.presence_penalty = 0.7, sampling.frequency_penalty = 0.4;
    if (chance(20)) sampling.logit_bias = {{5, 3.0F}, {9, -4.0F}};
    if (chance(20)) sampling.min_new_tokens = pick(0, sampling.max_new_tokens);
    if (chance(40)) sampling.top_logprobs = pick(0, 3);
    sampling.prompt_logprobs = sampling.top_logprobs >= 0 && chance(40);
    if (chance(10)) request.cache_salt = "other";
    request.all_logits = chance(6);
    request.pool = !request.all_logits && !sampling.prompt_logprobs && chance(6);
    if (rig_.scheduler().submit(request).ok()) requests_.push_back(std::move(request));
  }

  void cancel_one() {
    if (requests_.empty()) return;
    const RequestId id = requests_[random_() % requests_.size()].id;
    if (rig_.answer(id).finish != FinishReason::kNone) return;
    in_prefill_ |= rig_.answer(id).tokens.empty();
    rig_.scheduler().cancel(id);
  }

  void observe(const StepPlan& plan) {
    bool decode = false, prefill = false;
    std::vector<int64_t> dp_rows(static_cast<size_t>(options_.topology.dp_attention), 0);
    for (const StepEntry& entry : plan.entries) {
      dp_rows[static_cast<size_t>(entry.dp_rank)] += entry.token_count;
      const bool decodes = entry.token_count == 1 && entry.sample;
      decode |= decodes, prefill |= !decodes;
      chunk_inside_ |= entry.token_count > 1 && !entry.sample && (entry.prefix_len + entry.token_count) % options_.page_size != 0;
    }
    two_in_flight_ |= rig_.in_flight() > 0;
    mixed_ |= decode && prefill;
    idle_rank_ |= decode && std::count(dp_rows.begin(), dp_rows.end(), 0) > 0;
    padded_ |= decode && pads_rows(options_.dp_padding, dp_rows, prefill);
    ragged_ |= decode && dp_rows.size() > 1 && !pads_rows(options_.dp_padding, dp_rows, prefill);
    hit_inside_ |= !plan.copies.empty();
    rows_ = std::max(rows_, plan.tokens.size());
  }

  void check_ledger() {
    for (int d = 0; d < options_.topology.dp_attention; ++d) {
      const KvPages pages = rig_.scheduler().pages(d);
      EXPECT_EQ(pages.free + pages.cached + pages.held, pages.total);
    }
  }

  void compare(Counters& counters) {
    for (const SchedulerRequest& request : requests_) {
      const Answer& got = rig_.answer(request.id);
      ++counters.requests;
      hit_ |= got.cached_tokens > 0;
      if (got.finish == FinishReason::kAbort) continue;
      ++counters.compared;
      Rig alone(options_);
      if (!got.same(alone.alone(request))) ++counters.different;
      counters.logits += !got.logits.empty(), counters.pooled += !got.embedding.empty();
    }
  }

  void count(Counters& counters) {
    ++counters.schedules;
    counters.prefix_hit += hit_, counters.hit_inside_page += hit_inside_, counters.chunk_inside_page += chunk_inside_;
    counters.mixed += mixed_, counters.cancel_in_prefill += in_prefill_, counters.retraction += rig_.scheduler().retractions() > 0;
    counters.above_12_rows += rows_ > 12, counters.above_32_rows += rows_ > 32;
    counters.idle_rank += idle_rank_, counters.padded += padded_, counters.ragged += ragged_, counters.two_in_flight += two_in_flight_;
  }

  std::mt19937 random_;
  RigOptions options_;
  Rig rig_;
  std::function<void(StepPlan&)> fault_;
  std::vector<SchedulerRequest> requests_;
  bool hit_ = false, hit_inside_ = false, chunk_inside_ = false, mixed_ = false, in_prefill_ = false;
  bool idle_rank_ = false, padded_ = false, ragged_ = false, two_in_flight_ = false;
  size_t rows_ = 0;
};

void print(const Counters& c) {
  printf(
      "%d schedules, %d requests, %d compared, %d different; schedules with: prefix hit %d, hit inside a page %d, chunk boundary inside a "
      "page %d, mixed %d, cancel in prefill %d, retraction %d, above 12 rows %d, above 32 rows %d, idle attention-DP rank %d, padded %d, "
      "ragged %d, two plans in flight %d; requests with logits of every position %d, embedding %d\n",
      c.schedules, c.requests, c.compared, c.different, c.prefix_hit, c.hit_inside_page, c.chunk_inside_page, c.mixed, c.cancel_in_prefill,
      c.retraction, c.above_12_rows, c.above_32_rows, c.idle_rank, c.padded, c.ragged, c.two_in_flight, c.logits, c.pooled);
}

Counters run_schedules(uint32_t first, int count, const RigOptions& options) {
  Counters counters;
  for (uint32_t seed = first; seed < first + static_cast<uint32_t>(count); ++seed) {
    const int before = counters.different;
    Schedule(seed, options).run(counters);
    EXPECT_EQ(counters.different, before) << "seed " << seed;
  }
  print(counters);
  return counters;
}

Counters run_schedules(uint32_t first, int count, const Topology& topology = {}) {
  RigOptions options;
  options.topology = topology;
  return run_schedules(first, count, options);
}

TEST(ScheduleProperty, RequestsInAFewSchedulesGetWhatTheyGetAlone) { run_schedules(1, 25); }

TEST(ScheduleProperty, FullRequestsIn300SchedulesGetWhatTheyGetAlone) {
  const Counters c = run_schedules(1000, 320);
  for (const int seen : {c.prefix_hit, c.hit_inside_page, c.chunk_inside_page, c.mixed, c.cancel_in_prefill, c.retraction, c.above_12_rows,
                         c.above_32_rows}) {
    EXPECT_GE(seen, 30);
  }
}

struct NamedTopology {
  const char* name;
  Topology topology;
};
class ScheduleOverRanks : public ::testing::TestWithParam<NamedTopology> {};

TEST_P(ScheduleOverRanks, RequestsInAFewSchedulesGetWhatTheyGetAlone) { run_schedules(1, 6, GetParam().topology); }

TEST_P(ScheduleOverRanks, FullRequestsIn100SchedulesGetWhatTheyGetAlone) {
  const Topology& topology = GetParam().topology;
  const Counters c = run_schedules(3000, 100, topology);
  for (const int seen : {c.prefix_hit, c.hit_inside_page, c.chunk_inside_page, c.mixed, c.cancel_in_prefill}) EXPECT_GE(seen, 10);
  if (topology.pp_size > 1) {
    EXPECT_GE(c.two_in_flight, 50);
  }
  if (topology.dp_attention > 1) {
    for (const int seen : {c.idle_rank, c.padded, c.ragged}) EXPECT_GE(seen, 20);
  }
}

const NamedTopology kTopologies[] = {
    {"Tp2", {.tp_size = 2}},
    {"Pp2", {.pp_size = 2}},
    {"DpAttention2", {.tp_size = 2, .dp_attention = 2}},
    {"Tp2Pp2", {.tp_size = 2, .pp_size = 2}},
    {"Tp4DpAttention2", {.tp_size = 4, .dp_attention = 2}},
    {"Pp2DpAttention2OwnHeads", {.tp_size = 2, .pp_size = 2, .dp_attention = 2, .dp_lm_head = true}},
};
INSTANTIATE_TEST_SUITE_P(Topologies, ScheduleOverRanks, ::testing::ValuesIn(kTopologies),
                         [](const auto& given) { return given.param.name; });

/// A quantised checkpoint of ../shared, or a plain one and what it is quantised to while loading, and the type of its KV cache.
struct Quantised {
  const char* folder;
  const char* kv_cache_dtype;
  const char* quantization = "";
};
class ScheduleOfQuantised : public ::testing::TestWithParam<Quantised> {};

TEST_P(ScheduleOfQuantised, RequestsGetWhatTheyGetAlone) {
  RigOptions options;
  options.quantization = GetParam().quantization;
  const bool plain = !options.quantization.empty();
  options.model = std::string(LAMINA_SOURCE_DIR) + (plain ? "/tests/golden/models/" : "/../shared/golden/quant/") + GetParam().folder;
  options.kv_cache_dtype = GetParam().kv_cache_dtype;
  if (!is_directory(options.model)) GTEST_SKIP() << "../shared is absent";
  for (const Topology& topology : {Topology{}, Topology{.tp_size = 2}}) {
    options.topology = topology;
    const Counters c = run_schedules(7000, 12, options);
    EXPECT_GT(c.prefix_hit, 5);
    EXPECT_GT(c.mixed, 5);
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, ScheduleOfQuantised,
                         ::testing::Values(Quantised{"ct-w8a8-int8", "auto"}, Quantised{"ct-w8a8-int8-h4", "int8"},
                                           Quantised{"awq-4bit-g32", "auto"}, Quantised{"gptq-4bit-desc-act", "fp8_e5m2"},
                                           Quantised{"ct-w4a16-g32", "int8"}, Quantised{"fp8-dynamic-perchannel", "auto"},
                                           Quantised{"fp8-static-pertensor", "fp8_e4m3"}, Quantised{"kv-fp8-checkpoint", "fp8_e4m3"},
                                           Quantised{"mxfp4", "auto"}, Quantised{"llama-gqa", "auto", "int8"},
                                           Quantised{"qwen2", "int8", "int4"}, Quantised{"qwen3", "fp8_e4m3", "fp8"}));

TEST(ScheduleProperty, AGeneratorKeyedBySlotIsFound) {
  Counters counters;
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    Schedule schedule(seed, {});
    schedule.set_fault([](StepPlan& plan) {
      for (StepAdmission& admission : plan.admitted) admission.sampling.seed = plan.entries.size();  // where it stands in the batch
    });
    schedule.run(counters);
  }
  EXPECT_GT(counters.different, 0);
}

/// Attention that reads this step's keys and values before they are rounded to the cache's type.
class UnroundedBackend final : public AttentionBackend {
 public:
  const char* name() const override { return "unrounded"; }
  size_t stage_bytes(const RadixAttentionSpec& spec, int threads) const override { return inner_->stage_bytes(spec, threads); }
  void forward(ForwardContext& ctx, const AttentionCall& call) override {
    inner_->forward(ctx, call);
    for (const BatchSequence& sequence : ctx.batch.sequences) {
      for (int64_t r = 0; r < sequence.row_count; ++r) {
        for (int head = 0; head < call.spec.q_heads; ++head) attend(ctx, call, sequence, r, head);
      }
    }
  }

 private:
  static void attend(ForwardContext& ctx, const AttentionCall& call, const BatchSequence& sequence, int64_t r, int head) {
    const RadixAttentionSpec& spec = call.spec;
    const int kv_head = head / (spec.q_heads / spec.kv_heads);
    const int64_t position = sequence.prefix_len + r;
    const int64_t first = spec.window > 0 ? std::max<int64_t>(0, position - spec.window + 1) : 0;
    const auto value = [&](const KvTensor& tensor, ConstF32View fresh, int64_t p, int dim, int d) -> double {
      const int64_t column = int64_t{kv_head} * dim + d;
      if (p >= sequence.prefix_len) return fresh.at(sequence.row_begin + p - sequence.prefix_len, column);
      const int64_t page = ctx.batch.pages[static_cast<size_t>(sequence.page_begin + p / ctx.batch.page_size)];
      const int64_t at = (page * ctx.batch.page_size + p % ctx.batch.page_size) * tensor.slot_stride + column;
      return tensor.dtype == DType::kF32 ? static_cast<const float*>(tensor.base)[at]
                                         : bf16_to_f32(static_cast<const uint16_t*>(tensor.base)[at]);
    };
    std::vector<double> weights, out(static_cast<size_t>(spec.v_dim), 0.0);
    double sum = 0;
    for (int64_t p = first; p <= position; ++p) {
      double dot = 0;
      for (int d = 0; d < spec.qk_dim; ++d) {
        dot += call.q.at(sequence.row_begin + r, int64_t{head} * spec.qk_dim + d) *
               value(ctx.kv.keys(spec.layer_id), call.keys, p, spec.qk_dim, d);
      }
      weights.push_back(std::exp(dot * spec.scale));
      sum += weights.back();
    }
    for (int64_t p = first; p <= position; ++p) {
      for (int d = 0; d < spec.v_dim; ++d) {
        out[static_cast<size_t>(d)] +=
            weights[static_cast<size_t>(p - first)] / sum * value(ctx.kv.values(spec.layer_id), call.values, p, spec.v_dim, d);
      }
    }
    for (int d = 0; d < spec.v_dim; ++d) {
      call.out.store(sequence.row_begin + r, int64_t{head} * spec.v_dim + d, static_cast<float>(out[static_cast<size_t>(d)]));
    }
  }

  std::unique_ptr<AttentionBackend> inner_ = make_reference_backend();
};

TEST(ScheduleProperty, KeysUsedBeforeTheyAreRoundedAreFound) {
  Counters counters;
  for (uint32_t seed = 1; seed <= 12; ++seed) {
    RigOptions faulty;
    faulty.kv_cache_dtype = "bf16";
    faulty.backend = [] { return std::make_unique<UnroundedBackend>(); };
    Schedule schedule(seed, faulty);
    schedule.run(counters);
  }
  EXPECT_GT(counters.different, 0);
}

}  // namespace
}  // namespace lamina
