#include "runner/step_executor.h"

#include <algorithm>
#include <utility>

namespace lamina {
namespace {

class InlineExecutor final : public StepExecutor {
 public:
  explicit InlineExecutor(ModelRunner& runner) : runner_(runner) {}
  int depth() const override { return 1; }
  void submit(const StepPlan& plan) override { runner_.run(plan, result_); }
  void wait(StepResult& result) override { std::swap(result, result_); }

 private:
  ModelRunner& runner_;
  StepResult result_;
};

void merge(StepOutput& into, StepOutput&& part) {
  const auto take = [](auto& to, auto& from, bool has) {
    if (has) to = std::move(from);
  };
  take(into.token, part.token, part.token.has_value());
  take(into.logprob, part.logprob, part.logprob.has_value());
  take(into.prompt_logprobs, part.prompt_logprobs, !part.prompt_logprobs.empty());
  take(into.prompt_logits, part.prompt_logits, !part.prompt_logits.empty());
  take(into.embedding, part.embedding, !part.embedding.empty());
  take(into.captured, part.captured, !part.captured.empty());
  take(into.error, part.error, !part.error.empty());
}

}  // namespace

std::unique_ptr<StepExecutor> make_inline_executor(ModelRunner& runner) { return std::make_unique<InlineExecutor>(runner); }

void merge(StepResult& into, StepResult&& part) {
  if (into.fault.empty()) into.fault = std::move(part.fault);
  const size_t entries = std::min(into.outputs.size(), part.outputs.size());
  for (size_t e = 0; e < entries; ++e) merge(into.outputs[e], std::move(part.outputs[e]));
}

}  // namespace lamina
