#include <cstdio>
#include <iostream>
#include <optional>
#include <string>

#include "apps/measure.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/strings.h"
#include "checkpoint/config_reader.h"

namespace lamina {
namespace {

constexpr int64_t kMost = 1 << 20;  // tokens, requests

struct Session {
  Engine& engine;
  uint64_t prefills = 0;
  std::optional<Ceilings> ceilings;  // memory to read is made with the first request for them

  Result<int> number(const ConfigReader& request, const char* key, int fallback) {
    LAMINA_ASSIGN(const std::optional<int64_t> value, request.optional_in({key}, 1, kMost));
    return static_cast<int>(value.value_or(fallback));
  }

  Status prefill(const ConfigReader& request, Json& out) {
    PrefillShape shape;
    LAMINA_ASSIGN(shape.tokens, number(request, "tokens", shape.tokens));
    LAMINA_ASSIGN(shape.batch, number(request, "batch", shape.batch));
    LAMINA_ASSIGN(const double seconds, prefill_seconds(engine, shape, prefills++));
    out.set("seconds", seconds);
    out.set("tok_s", shape.tokens * shape.batch / seconds);
    out.set("gflops", prefill_flops(engine, shape.tokens) * shape.batch / seconds / 1e9);
    return {};
  }

  Status decode(const ConfigReader& request, Json& out) {
    DecodeShape shape{.fill = true};
    LAMINA_ASSIGN(shape.context, number(request, "context", shape.context));
    LAMINA_ASSIGN(shape.batch, number(request, "batch", shape.batch));
    LAMINA_ASSIGN(shape.tokens, number(request, "tokens", shape.tokens));
    LAMINA_ASSIGN(const DecodeRate rate, decode_rate(engine, shape));
    const double step_bytes = decode_bytes(engine, shape.batch, rate.context);
    out.set("tok_s", rate.tokens_per_second);
    out.set("step_bytes", step_bytes);
    out.set("gb_s", step_bytes * rate.tokens_per_second / shape.batch / 1e9);
    out.set("cached", rate.cached);
    return {};
  }

  Status measure_ceilings(Json& out) {
    if (!ceilings) {
      LAMINA_ASSIGN(Ceilings made, Ceilings::create(engine));
      ceilings.emplace(std::move(made));
    }
    const Ceilings::Rates rates = ceilings->measure();
    out.set("read_gb_s", rates.read_gb_s);
    out.set("peak_gflops", rates.peak_gflops);
    return {};
  }

  Result<Json> answer(const std::string& line) {
    LAMINA_ASSIGN(const Json parsed, parse_json(line, "stdin"));
    const ConfigReader request(parsed, "stdin");
    LAMINA_ASSIGN(const std::string what, request.required<std::string>({"what"}));
    Json out;
    out.set("what", what);
    if (what == "prefill") {
      LAMINA_TRY(prefill(request, out));
    } else if (what == "decode") {
      LAMINA_TRY(decode(request, out));
    } else if (what == "ceilings") {
      LAMINA_TRY(measure_ceilings(out));
    } else if (what == "memory") {
      out.set("peak_rss_bytes", peak_rss());
    } else {
      return Error{cat("stdin: '", what, "' is no measurement; there are prefill, decode, ceilings, memory")};
    }
    return out;
  }
};

void print(const Json& value) {
  print_json(value);
  std::fflush(stdout);
}

}  // namespace

Status run_session(const EngineOptions& options) {
  const int64_t start_ns = SteadyClock().now_ns();
  LAMINA_ASSIGN(const std::unique_ptr<Engine> engine, start_engine(options));
  Session session{*engine};
  LAMINA_TRY(prefill_seconds(*engine, {.tokens = 1}, session.prefills++));
  Json ready;
  ready.set("what", "ready");
  ready.set("load_s", engine->info().load_seconds);
  ready.set("ready_s", static_cast<double>(SteadyClock().now_ns() - start_ns) / 1e9);
  ready.set("isa", isa_name(engine->info().isa));
  ready.set("threads", engine->info().threads);
  ready.set("weight_bytes", engine->info().weight_bytes);
  ready.set("kv_bytes_per_token", engine->info().kv_bytes_per_token);
  print(ready);
  for (std::string line; std::getline(std::cin, line);) {
    LAMINA_ASSIGN(const Json answer, session.answer(line));
    print(answer);
  }
  return {};
}

}  // namespace lamina
