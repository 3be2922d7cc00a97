#pragma once
// How fast a started engine is, beside what the machine can do at most. One measurement a call; the caller repeats and alternates.

#include "apps/command.h"
#include "base/thread_team.h"
#include "kernels/ceiling.h"

namespace lamina {

struct PrefillShape {
  int tokens = 512;  // of each prompt
  int batch = 1;     // prompts at the same time
};

struct DecodeShape {
  int context = 32;   // prompt tokens of each request
  int batch = 1;      // requests at the same time
  int tokens = 64;    // decoded by each
  bool fill = false;  // computes the prompts once before, for the prefix cache: else the first may have ended before the last decodes
};

/// Seconds from submitting prompts of random tokens to the last first token. Prompts differ between values of `seed`.
Result<double> prefill_seconds(Engine& engine, const PrefillShape& shape, uint64_t seed);

/// Tokens a second while all requests of the batch decode: from the last first token on, up to the first last one.
struct DecodeRate {
  double tokens_per_second = 0;
  double context = 0;  // tokens each request has meanwhile, on average
  int cached = 0;      // prompt tokens of all requests that came from the prefix cache
};
/// Prompts are the same for equal `shape`, so that the engine's prefix cache, when it is on, saves their computation.
Result<DecodeRate> decode_rate(Engine& engine, const DecodeShape& shape);

/// Floating-point operations of one prompt of `tokens`: two a weight that multiplies (the head only for the last row), and attention.
double prefill_flops(const Engine& engine, int64_t tokens);
/// Bytes a decode step reads at least: every weight once (an untied embedding only by row) and the keys and values.
double decode_bytes(const Engine& engine, int batch, double context);

/// Both ceilings of the machine, measured with as many threads as the engine has.
class Ceilings {
 public:
  struct Rates {
    double read_gb_s = 0;
    double peak_gflops = 0;
  };
  static Result<Ceilings> create(const Engine& engine);
  Rates measure();

 private:
  Ceilings(const kernels::Kernels& kernels, std::unique_ptr<ThreadTeam> team, Buffer memory)
      : kernels_(kernels), team_(std::move(team)), memory_(std::move(memory)) {}
  const kernels::Kernels& kernels_;
  std::unique_ptr<ThreadTeam> team_;
  Buffer memory_;
};

/// `bench --session`: prints one JSON object once the model has answered a prompt of one token, then answers one request a line of stdin
/// with one object, until stdin ends. Requests: {"what":"prefill","tokens":N,"batch":B},
/// {"what":"decode","context":N,"batch":B,"tokens":N},
/// {"what":"ceilings"}, {"what":"memory"}. What is left out has its default. A bad line ends the session with an error.
Status run_session(const EngineOptions& options);

}  // namespace lamina
