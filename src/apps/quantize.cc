#include "plan/quantize.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>

#include "apps/command.h"
#include "base/cpu.h"
#include "base/log.h"
#include "base/strings.h"
#include "plan/memory.h"

namespace lamina {
namespace {

struct Options {
  std::string model, out, scheme, ignore;
  int64_t group_size = 0;
  double max_shard_gb = SafetensorsWriter::kShardBytes / 1e9;
  int threads = 0;
  bool json = false;
};

EngineOptions engine_options(const Options& options) {
  EngineOptions out;
  out.model = options.model;
  out.quantization = options.scheme;
  out.quantization_group_size = options.group_size;
  out.quantization_ignore = options.ignore;
  out.threads = options.threads;
  return out;
}

Status check(const Options& options) {
  const QuantiseRequest request{.scheme = options.scheme,
                                .group_size = options.group_size,
                                .ignore = options.ignore,
                                .scheme_flag = "--scheme",
                                .group_size_flag = "--group-size",
                                .ignore_flag = "--ignore"};
  LAMINA_TRY(quantise_preset(request));
  return validate(engine_options(options));
}

Json to_json(const Options& options, const QuantizeReport& report) {
  Json out, left_out = Json::array();
  for (const std::string& name : report.left_out) left_out.push(name);
  out.set("out", options.out);
  out.set("scheme", options.scheme);
  out.set("quantised_tensors", report.quantised);
  out.set("copied_tensors", report.copied);
  out.set("bytes_before", report.bytes_before);
  out.set("bytes_after", report.bytes_after);
  out.set("left_out", std::move(left_out));
  return out;
}

Status run(const Options& options) {
  const QuantizeOptions request{.plan = with_environment(engine_options(options)),
                                .out = options.out,
                                .max_shard_bytes = static_cast<uint64_t>(std::llround(options.max_shard_gb * 1e9))};
  ThreadTeam team(options.threads > 0 ? options.threads : usable_cpus(), usable_cpus());
  LAMINA_ASSIGN(const QuantizeReport report, quantize_checkpoint(request, team, progress_bar("quantising")));
  if (!report.left_out.empty()) log_info(cat("left out: ", join(report.left_out, ", ")));
  log_info(cat(options.out, ": ", report.quantised, " tensors in ", options.scheme, ", ", report.copied, " as they were; ",
               size_string(report.bytes_before), " before, ", size_string(report.bytes_after), " now"));
  if (options.json) print_json(to_json(options, report));
  return {};
}

}  // namespace

void add_quantize(CLI::App& app, CommandBody& body) {
  CLI::App* command = app.add_subcommand("quantize", "write a quantised checkpoint (compressed-tensors) of a plain one");
  const auto options = std::make_shared<Options>();
  command->add_option("MODEL", options->model, "checkpoint folder")->required();
  command->add_option("OUT", options->out, "folder to write: new or empty")->required();
  // Also by the names of quantising while loading, which errors of the model's plan have.
  command->add_option("--scheme,--quantization", options->scheme, "int8 | int4 | fp8")->required();
  command->add_option("--group-size,--quantization-group-size", options->group_size, "int4: 32 (default) | 128 inputs share a scale");
  command->add_option("--ignore,--quantization-ignore", options->ignore,
                      "modules left plain, separated by commas; re: and a regular expression");
  command->add_option("--max-shard-size", options->max_shard_gb, "GB of a file, but a tensor is never cut")->check(CLI::Range(1e-9, 1e6));
  command->add_option("--threads", options->threads, "threads (0: what it may use)");
  command->add_flag("--json", options->json, "one JSON object");
  body_of(*command, body, {.check = [options] { return check(*options); }, .run = [options] { return run(*options); }});
}

}  // namespace lamina
