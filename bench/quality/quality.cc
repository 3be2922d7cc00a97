// What rounding weights and inputs costs: `measure_quality [MODEL ...]`, by default the demo and the stories checkpoint.
//
// Teacher-forced over kPositions positions, the logits of each variant are held to those of --dtype float32: the mean of KL(f32 || variant)
// in nats, over the whole vocabulary in f64, and how often both have the same likeliest token. The texts: of a folder with glosses.tsv
// questions with their answers, scored twice, on the answers and on every word; else what the f32 model says itself at temperature 1. With
// glosses.tsv, also the share of glosses that greedy decoding recites exactly. Prints a table; exit code 1 when a variant is beyond its
// limit anywhere.

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>

#include "base/strings.h"
#include "engine/engine.h"

namespace lamina {
namespace {

constexpr size_t kPositions = 2000;
constexpr size_t kGlossStep = 20;  // every so many lines of glosses.tsv, in turns, until the positions are there
constexpr int kSampledTokens = 400;

constexpr double kMostInt8 = 0.002;
constexpr double kMostInt4 = 0.03;

struct Variant {
  const char* name;
  std::function<void(EngineOptions&)> set;
  double most_kl = INFINITY;
};

std::function<void(EngineOptions&)> quantising(const char* scheme, int group = 0, const char* act_quant = "on") {
  return [=](EngineOptions& options) {
    options.quantization = scheme;
    options.quantization_group_size = group;
    options.act_quant = act_quant;
  };
}

const Variant kVariants[] = {
    {.name = "bf16", .set = [](EngineOptions&) {}},
    {.name = "int8", .set = quantising("int8"), .most_kl = kMostInt8},
    {.name = "int8, act-quant off", .set = quantising("int8", 0, "off"), .most_kl = kMostInt8},
    {.name = "fp8", .set = quantising("fp8")},
    {.name = "fp8, act-quant off", .set = quantising("fp8", 0, "off")},
    {.name = "int4 g32", .set = quantising("int4", 32), .most_kl = kMostInt4},
    {.name = "int4 g32, act-quant off", .set = quantising("int4", 32, "off"), .most_kl = kMostInt4},
    {.name = "int4 g128", .set = quantising("int4", 128)},
    {.name = "int4 g128, act-quant off", .set = quantising("int4", 128, "off")},
};

/// Tokens to be scored. The distributions after the tokens from `first` on count.
struct Text {
  std::vector<TokenId> ids;
  size_t first = 0;

  size_t positions() const { return ids.size() - first; }
};

struct Gloss {
  std::string prompt;
  std::string answer;
};

std::vector<Gloss> glosses(const std::string& model) {
  std::vector<Gloss> out;
  std::ifstream file(model + "/glosses.tsv");
  for (std::string line; std::getline(file, line);) {
    const std::string word = line.substr(0, line.find('\t'));
    const char* article = std::string("aeiou").find(word[0]) != std::string::npos ? "an" : "a";
    out.push_back({cat("<|user|>What is ", article, " ", word, "?<|end|><|assistant|>"), line.substr(line.find('\t') + 1)});
  }
  return out;
}

Result<std::unique_ptr<Engine>> start(const std::string& model, const std::function<void(EngineOptions&)>& set) {
  EngineOptions options;
  options.model = model;
  options.dtype = "bfloat16";
  if (const char* isa = std::getenv("LAMINA_ISA")) options.isa = isa;
  set(options);
  return Engine::start(options);
}

/// All events of a request; the error of one that the engine ended.
Result<std::vector<EngineEvent>> events_of(RequestStream& stream) {
  std::vector<EngineEvent> events;
  while (std::optional<EngineEvent> event = stream.next()) {
    if (!event->error.empty()) return Error{event->error};
    events.push_back(std::move(*event));
  }
  return events;
}

/// What the model says after its first token, each time with another seed.
Result<std::vector<Text>> sampled_texts(Engine& engine) {
  std::vector<Text> texts;
  size_t positions = 0;
  for (uint64_t seed = 1; positions < kPositions; ++seed) {
    EngineRequest request{.prompt = {engine.config().bos_token_ids.at(0)}, .sampling = {}};
    request.sampling.seed = seed;
    request.sampling.max_new_tokens = kSampledTokens;
    Text text{.ids = request.prompt};
    LAMINA_ASSIGN(const auto stream, engine.submit(std::move(request)));
    LAMINA_ASSIGN(const std::vector<EngineEvent> events, events_of(*stream));
    for (const EngineEvent& event : events) {
      if (event.token) text.ids.push_back(*event.token);
    }
    positions += text.positions();
    texts.push_back(std::move(text));
  }
  return texts;
}

/// Questions with their answers. Either what was learnt counts, the answer and its end, or every token.
Result<std::vector<Text>> gloss_texts(Engine& engine, const std::vector<Gloss>& all, bool answers_only) {
  LAMINA_ASSIGN(const Tokenizer* tokenizer, engine.tokenizer());
  std::vector<Text> texts;
  size_t positions = 0;
  for (size_t i = 0; i < all.size() && positions < kPositions; ++i) {
    const Gloss& gloss = all[i * kGlossStep % all.size() + i * kGlossStep / all.size()];
    LAMINA_ASSIGN(const std::vector<TokenId> prompt, tokenizer->encode(gloss.prompt, {}));
    LAMINA_ASSIGN(std::vector<TokenId> ids, tokenizer->encode(gloss.prompt + gloss.answer, {}));
    texts.push_back({.ids = std::move(ids), .first = answers_only ? prompt.size() - 1 : 0});
    positions += texts.back().positions();
  }
  return texts;
}

/// [positions, vocab] over all texts.
Result<std::vector<float>> logits_of(Engine& engine, const std::vector<Text>& texts) {
  const size_t vocab = static_cast<size_t>(engine.config().vocab_size);
  std::vector<float> logits;
  for (const Text& text : texts) {
    EngineRequest request{.prompt = text.ids, .sampling = {}, .all_logits = true};
    request.sampling.max_new_tokens = 0;
    LAMINA_ASSIGN(const auto stream, engine.submit(std::move(request)));
    LAMINA_ASSIGN(const std::vector<EngineEvent> events, events_of(*stream));
    const std::vector<float>& rows = events.front().prompt_logits;
    logits.insert(logits.end(), rows.begin() + static_cast<std::ptrdiff_t>(text.first * vocab), rows.end());
  }
  logits.resize(std::min(logits.size(), kPositions * vocab));
  return logits;
}

/// Of one row of logits.
std::vector<double> log_softmax(const float* row, size_t vocab) {
  const double most = *std::max_element(row, row + vocab);
  double sum = 0;
  for (size_t v = 0; v < vocab; ++v) sum += std::exp(row[v] - most);
  std::vector<double> out(row, row + vocab);
  for (double& value : out) value -= most + std::log(sum);
  return out;
}

struct Distance {
  double kl = 0;         // mean over the positions, nats
  double agreement = 0;  // share of positions with the same likeliest token
};

Distance distance(const std::vector<float>& exact, const std::vector<float>& rounded, size_t vocab) {
  Distance sum;
  const size_t rows = exact.size() / vocab;
  for (size_t r = 0; r < rows; ++r) {
    const float *p_row = exact.data() + r * vocab, *q_row = rounded.data() + r * vocab;
    const std::vector<double> p = log_softmax(p_row, vocab), q = log_softmax(q_row, vocab);
    for (size_t v = 0; v < vocab; ++v) sum.kl += std::exp(p[v]) * (p[v] - q[v]);
    sum.agreement += std::max_element(p_row, p_row + vocab) - p_row == std::max_element(q_row, q_row + vocab) - q_row ? 1.0 : 0.0;
  }
  return {sum.kl / static_cast<double>(rows), sum.agreement / static_cast<double>(rows)};
}

/// Of all glosses those that come out to the letter, ended by the model itself.
Result<size_t> recited(Engine& engine, const std::vector<Gloss>& all) {
  LAMINA_ASSIGN(const Tokenizer* tokenizer, engine.tokenizer());
  std::vector<std::unique_ptr<RequestStream>> streams;
  for (const Gloss& gloss : all) {
    LAMINA_ASSIGN(std::vector<TokenId> prompt, tokenizer->encode(gloss.prompt, {}));
    EngineRequest request{.prompt = std::move(prompt), .sampling = {}};
    request.sampling.temperature = 0;
    request.sampling.max_new_tokens = 96;
    LAMINA_ASSIGN(auto stream, engine.submit(std::move(request)));
    streams.push_back(std::move(stream));
  }
  size_t exact = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    LAMINA_ASSIGN(const std::vector<EngineEvent> events, events_of(*streams[i]));
    std::string text;
    for (const EngineEvent& event : events) text += event.text;
    exact += text == all[i].answer && events.back().finish == FinishReason::kStop ? 1 : 0;
  }
  return exact;
}

/// Positions that are scored together, and the f32 logits there.
struct Sample {
  const char* scored;
  std::vector<Text> texts;
  std::vector<float> exact;
};

Result<std::vector<Sample>> samples_of(const std::string& model, const std::vector<Gloss>& all) {
  LAMINA_ASSIGN(const auto engine, start(model, [](EngineOptions& options) { options.dtype = "float32"; }));
  std::vector<Sample> samples;
  if (all.empty()) {
    LAMINA_ASSIGN(std::vector<Text> texts, sampled_texts(*engine));
    samples.push_back({"sampled", std::move(texts), {}});
  } else {
    for (const bool answers_only : {true, false}) {
      LAMINA_ASSIGN(std::vector<Text> texts, gloss_texts(*engine, all, answers_only));
      samples.push_back({answers_only ? "answers" : "every word", std::move(texts), {}});
    }
  }
  for (Sample& sample : samples) {
    LAMINA_ASSIGN(sample.exact, logits_of(*engine, sample.texts));
  }
  return samples;
}

/// Prints a model's rows; whether all are within their limits.
Result<bool> measure(const std::string& model) {
  const std::vector<Gloss> all = glosses(model);
  LAMINA_ASSIGN(const std::vector<Sample> samples, samples_of(model, all));
  bool within = true;
  for (const Variant& variant : kVariants) {
    LAMINA_ASSIGN(const auto engine, start(model, variant.set));
    std::string recital = "-";
    if (!all.empty()) {
      LAMINA_ASSIGN(const size_t count, recited(*engine, all));
      recital = cat(count, " of ", all.size());
    }
    for (const Sample& sample : samples) {
      LAMINA_ASSIGN(const std::vector<float> rounded, logits_of(*engine, sample.texts));
      const Distance d = distance(sample.exact, rounded, static_cast<size_t>(engine->config().vocab_size));
      const bool miss = !(d.kl <= variant.most_kl);
      std::printf("| %s, %s | %s | %.3g%s | %.2f %% | %s |\n", engine->info().model.c_str(), sample.scored, variant.name, d.kl,
                  miss ? " (beyond its limit)" : "", 100 * d.agreement, recital.c_str());
      std::fflush(stdout);
      within = within && !miss;
    }
  }
  return within;
}

int run(std::vector<std::string> models) {
  const std::string stories = LAMINA_SOURCE_DIR "/../shared/models/stories260k";
  if (models.empty()) {
    models.push_back(LAMINA_SOURCE_DIR "/models/demo");
    if (access(stories.c_str(), R_OK) == 0) models.push_back(stories);
  }
  std::printf("| model | variant | mean KL to f32, nats | same likeliest token | glosses recited |\n|---|---|---|---|---|\n");
  bool within = true;
  for (const std::string& model : models) {
    const Result<bool> result = measure(model);
    if (!result.ok()) {
      std::fprintf(stderr, "error: %s: %s\n", model.c_str(), result.error().message.c_str());
      return 1;
    }
    within = within && *result;
  }
  return within ? 0 : 1;
}

}  // namespace
}  // namespace lamina

int main(int argc, char** argv) { return lamina::run({argv + 1, argv + argc}); }
