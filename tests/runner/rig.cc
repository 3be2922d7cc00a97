#include "tests/runner/rig.h"

#include <gtest/gtest.h>

#include "base/cpu.h"
#include "plan/memory.h"

namespace lamina::testing {
namespace {

PlanOptions plan_options(const RigOptions& options) {
  PlanOptions out;
  out.model = options.model.starts_with('/') ? options.model : std::string(LAMINA_SOURCE_DIR "/tests/golden/models/") + options.model;
  out.kv_cache_dtype = options.kv_cache_dtype;
  out.dtype = options.dtype;
  out.quantization = options.quantization;
  out.topology = options.topology;
  out.boundary_plan = options.boundary_plan;
  out.boundary_rows = options.boundary_rows;
  out.dp_padding = options.dp_padding;
  out.capture_layers = options.capture_layers;
  return out;
}

MemoryRequest memory_request(const RigOptions& options, const ModelSource& source) {
  MemoryRequest request;
  request.step_rows =
      largest_step(options.chunked_prefill_size, options.max_running_requests, options.topology.dp_attention, options.dp_padding);
  request.threads = options.threads;
  request.kv_dtype = source.kv_dtype;
  request.page_size = options.page_size;
  request.max_total_tokens = options.max_total_tokens;
  request.available = available_memory();
  return request;
}

SchedulerConfig scheduler_config(const RigOptions& options, const ModelSource& source, const CausalLM& model, const MemoryPlan& memory) {
  SchedulerConfig config;
  config.kv = {memory.pages, memory.page_size};
  config.max_running_requests = options.max_running_requests;
  config.chunked_prefill_size = options.chunked_prefill_size;
  config.mixed_prefill_size = options.mixed_prefill_size;
  config.context_length = source.context_length;
  config.rope_rule = model.rope_rule();
  config.rope_original_length = model.rope_threshold();
  config.eos_token_ids = source.config.eos_token_ids;
  config.prefix_cache = options.prefix_cache;
  config.policy = options.policy;
  config.new_token_ratio = options.new_token_ratio;
  config.min_new_token_ratio = options.new_token_ratio / 5;
  config.dp_ranks = options.topology.dp_attention;
  config.plans_in_flight = options.topology.pp_size;
  return config;
}

template <class T>
T value_of(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.error().message;
  return std::move(*result);
}

template <class T>
void append(std::vector<T>& to, std::vector<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

Rig::Rig(const RigOptions& options) : source_(value_of(read_model_source(plan_options(options), true))) {
  start_ranks(options);
  start_executor(options);
}

Rig::~Rig() { end(); }

void Rig::start_executor(const RigOptions& options) {
  const int ranks = options.topology.world_size();
  if (ranks == 1) {
    executor_ = make_inline_executor(runner(0));
  } else if (!options.processes) {
    executor_ = make_thread_executor(options.topology, ranks_, fault_);
  } else {
    worlds_ = std::make_unique<FakeWorlds>(ranks, fault_);
    ends_.resize(static_cast<size_t>(ranks) - 1);
    for (int r = 1; r < ranks; ++r) {
      workers_.emplace_back(
          [this, r] { ends_[static_cast<size_t>(r) - 1] = run_process_worker(ranks_[static_cast<size_t>(r)], worlds_->world(r), fault_); });
    }
    executor_ = make_process_executor(options.topology, ranks_[0], worlds_->world(0), fault_, options.result_deadline);
  }
}

std::vector<Status> Rig::end() {
  executor_.reset();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
  return ends_;
}

void Rig::start_ranks(const RigOptions& options) {
  const int ranks = options.topology.world_size();
  const int threads = ranks * options.threads;
  std::vector<ParallelGroups> groups =
      make_thread_groups(options.topology, fault_, {.deadline = options.deadline, .threads_of_process = threads, .cpus = usable_cpus()});
  std::vector<ModelPlan> plans;
  std::vector<MemoryPlan> memory;
  const MemoryRequest request = memory_request(options, *source_);
  for (int r = 0; r < ranks; ++r) {
    plans.push_back(value_of(plan_rank(plan_options(options), source_, std::move(groups[static_cast<size_t>(r)]), r)));
    ModelPlan& plan = plans.back();
    if (options.backend) plan.backend = options.backend();
    memory.push_back(fixed_memory(plan, request));
    ranks_.push_back({std::make_unique<ThreadTeam>(options.threads, threads <= usable_cpus() ? options.threads : 1), nullptr});
    EXPECT_TRUE(load_weights(plan, *ranks_.back().team, {}).ok());
  }
  const Status pages = plan_pages(memory, request);
  EXPECT_TRUE(pages.ok()) << pages.error().message;
  scheduler_ = std::make_unique<Scheduler>(scheduler_config(options, *source_, *plans[0].built.model, memory[0]));
  for (size_t r = 0; r < plans.size(); ++r) {
    ranks_[r].runner = value_of(ModelRunner::create(std::move(plans[r]), memory[r], *ranks_[r].team, source_->config.eos_token_ids));
  }
}

bool Rig::step(const std::function<void(StepPlan&)>& see) {
  while (in_flight_ < executor_->depth()) {
    scheduler_->next_step(plan_);
    if (plan_.empty()) break;
    if (see) see(plan_);
    executor_->submit(plan_);
    ++in_flight_;
  }
  if (in_flight_ == 0) return false;
  executor_->wait(result_);
  --in_flight_;
  if (!result_.fault.empty()) return false;
  scheduler_->complete(result_, events_);
  for (StepOutput& output : result_.outputs) take(output);
  for (const RequestEvent& event : events_) {
    Answer& answer = answers_[event.request];
    if (event.token) answer.tokens.push_back(*event.token);
    answer.finish = event.finish;
    answer.cached_tokens = event.cached_tokens;
  }
  return true;
}

void Rig::take(StepOutput& output) {
  Answer& answer = answers_[output.request];
  append(answer.prompt_logprobs, output.prompt_logprobs);
  append(answer.logits, output.prompt_logits);
  append(answer.embedding, output.embedding);
  answer.captured.resize(std::max(answer.captured.size(), output.captured.size()));
  for (size_t c = 0; c < output.captured.size(); ++c) append(answer.captured[c], output.captured[c]);
  if (output.logprob) answer.logprobs.push_back(std::move(*output.logprob));
}

Answer Rig::alone(SchedulerRequest request) {
  const RequestId id = request.id;
  const Status submitted = scheduler_->submit(std::move(request));
  EXPECT_TRUE(submitted.ok()) << submitted.error().message;
  while (step()) {
  }
  return std::move(answers_[id]);
}

}  // namespace lamina::testing
