#include "tests/runner/rig.h"

#include <gtest/gtest.h>

namespace lamina::testing {
namespace {

ModelPlan plan_of(const RigOptions& options) {
  PlanOptions plan_options;
  plan_options.model = std::string(LAMINA_SOURCE_DIR "/tests/golden/models/") + options.model;
  plan_options.kv_cache_dtype = options.kv_cache_dtype;
  plan_options.dtype = options.dtype;
  Result<ModelPlan> plan = make_model_plan(plan_options, true);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return std::move(*plan);
}

MemoryRequest memory_request(const RigOptions& options, const ModelPlan& plan) {
  MemoryRequest request;
  request.step_rows = std::max(options.chunked_prefill_size, options.max_running_requests);
  request.threads = options.threads;
  request.kv_dtype = plan.source->kv_dtype;
  request.page_size = options.page_size;
  request.max_total_tokens = options.max_total_tokens;
  request.available = available_memory();
  return request;
}

SchedulerConfig scheduler_config(const RigOptions& options, const ModelPlan& plan, const MemoryPlan& memory) {
  SchedulerConfig config;
  config.kv = {memory.pages, memory.page_size};
  config.max_running_requests = options.max_running_requests;
  config.chunked_prefill_size = options.chunked_prefill_size;
  config.mixed_prefill_size = options.mixed_prefill_size;
  config.context_length = plan.source->context_length;
  config.rope_rule = plan.built.model->rope_rule();
  config.rope_original_length = plan.built.model->rope_threshold();
  config.eos_token_ids = plan.source->config.eos_token_ids;
  config.prefix_cache = options.prefix_cache;
  config.policy = options.policy;
  config.new_token_ratio = options.new_token_ratio;
  config.min_new_token_ratio = options.new_token_ratio / 5;
  return config;
}

}  // namespace

Rig::Rig(const RigOptions& options) {
  ModelPlan plan = plan_of(options);
  if (options.backend) plan.backend = options.backend();
  team_ = std::make_unique<ThreadTeam>(options.threads, options.threads);
  EXPECT_TRUE(load_weights(plan, *team_, {}).ok());
  Result<MemoryPlan> memory = plan_memory(*plan.built.model, *plan.backend, plan.load.bytes, memory_request(options, plan));
  EXPECT_TRUE(memory.ok());
  scheduler_ = std::make_unique<Scheduler>(scheduler_config(options, plan, *memory));
  config_ = plan.source->config;
  const std::vector<TokenId> end_tokens = plan.source->config.eos_token_ids;
  Result<std::unique_ptr<ModelRunner>> runner = ModelRunner::create(std::move(plan), *memory, *team_, end_tokens);
  EXPECT_TRUE(runner.ok());
  runner_ = std::move(*runner);
}

bool Rig::step(const std::function<void(StepPlan&)>& change) {
  scheduler_->next_step(plan_);
  if (plan_.empty()) return false;
  if (change) change(plan_);
  runner_->run(plan_, result_);
  scheduler_->complete(result_, events_);
  for (StepOutput& output : result_.outputs) {
    Answer& answer = answers_[output.request];
    for (TokenLogprob& logprob : output.prompt_logprobs) answer.prompt_logprobs.push_back(std::move(logprob));
    if (output.logprob) answer.logprobs.push_back(std::move(*output.logprob));
  }
  for (const RequestEvent& event : events_) {
    Answer& answer = answers_[event.request];
    if (event.token) answer.tokens.push_back(*event.token);
    answer.finish = event.finish;
    answer.cached_tokens = event.cached_tokens;
  }
  return true;
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
