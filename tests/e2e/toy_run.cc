#include "tests/e2e/toy_run.h"

#include <gtest/gtest.h>

namespace lamina::e2e {

using fixture::TempFolder;
using fixture::ToyModel;

EngineOptions toy_options(const TempFolder& folder) {
  EngineOptions options;
  options.model = folder.path();
  options.max_total_tokens = 2048;
  options.max_running_requests = 4;
  return options;
}

namespace {

Served serve_quietly(const EngineOptions& options, const std::vector<TokenId>& prompt) {
  Served out;
  const auto engine = Engine::start(options);
  if (!engine.ok()) {
    out.refusal = engine.error().message;
    return out;
  }
  out.weight_bytes = (*engine)->info().memory.weight_bytes;
  EngineRequest request{.prompt = prompt, .sampling = {}, .all_logits = true};
  request.sampling.max_new_tokens = 0;
  const auto stream = (*engine)->submit(std::move(request));
  if (!stream.ok()) {
    out.refusal = stream.error().message;
    return out;
  }
  while (const std::optional<EngineEvent> event = (*stream)->next()) {
    EXPECT_EQ(event->error, "");
    out.logits.insert(out.logits.end(), event->prompt_logits.begin(), event->prompt_logits.end());
  }
  return out;
}

}  // namespace

Served serve(const EngineOptions& options, const std::vector<TokenId>& prompt) {
  ::testing::internal::CaptureStderr();
  Served out = serve_quietly(options, prompt);
  out.log = ::testing::internal::GetCapturedStderr();
  return out;
}

Served serve(const TempFolder& folder, const std::vector<TokenId>& prompt) { return serve(toy_options(folder), prompt); }

Served serve(const ToyModel& model, const std::vector<TokenId>& prompt) {
  const TempFolder folder;
  model.write(folder);
  return serve(folder, prompt);
}

void expect_oracle(const Served& served, const oracle::Model& wanted, const fixture::Tensors& tensors, const std::vector<TokenId>& prompt) {
  ASSERT_EQ(served.refusal, "");
  EXPECT_LT(fixture::worst_difference(oracle::logits(wanted, tensors, prompt), served.logits), kLogitTolerance);
}

void expect_served(const ToyModel& model, const oracle::Model& wanted) {
  const std::vector<TokenId> prompt = fixture::toy_prompt(40);
  expect_oracle(serve(model, prompt), wanted, model.tensors, prompt);
}

Tokens generate(Engine& engine, const std::vector<TokenId>& prompt, const SamplingParams& sampling) {
  Tokens out;
  const auto stream = engine.submit({.prompt = prompt, .sampling = sampling});
  if (!stream.ok()) {
    out.refusal = stream.error().message;
    return out;
  }
  while (const std::optional<EngineEvent> event = (*stream)->next()) {
    EXPECT_EQ(event->error, "");
    if (event->token) out.ids.push_back(*event->token);
    out.text += event->text;
    out.finish = event->finish;
  }
  return out;
}

}  // namespace lamina::e2e
