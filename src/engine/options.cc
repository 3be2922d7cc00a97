#include "engine/options.h"

#include <algorithm>
#include <initializer_list>

#include "base/strings.h"

namespace lamina {
namespace {

Status one_of(std::string_view flag, const std::string& value, std::initializer_list<const char*> allowed) {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return {};
  return error(flag, " ", value, ": allowed are ", join({allowed.begin(), allowed.end()}, ", "));
}

Status in_range(std::string_view flag, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return {};
  return error(flag, " ", value, ": allowed are ", low, " to ", high);
}

Status validate_ranks(const EngineOptions& options) {
  LAMINA_TRY(validate(options.topology));
  LAMINA_TRY(one_of("--boundary-plan", options.boundary_plan, {"fused", "reference"}));
  LAMINA_TRY(one_of("--boundary-rows", options.boundary_rows, {"auto", "replicated", "scattered"}));
  LAMINA_TRY(one_of("--dp-padding", options.dp_padding, {"auto", "padded", "ragged"}));
  LAMINA_TRY(in_range("--dist-timeout", options.dist_timeout, 1, 7 * 24 * 3600));
  LAMINA_TRY(in_range("--max-micro-batches", options.max_micro_batches, 0, 4096));
  if (!options.enable_two_batch_overlap) return {};
  return error("--enable-two-batch-overlap is not built: it stays out until a measurement on CPUs shows that it is faster");
}

Status validate_quantization(const EngineOptions& options) {
  if (!options.quantization.empty()) {
    LAMINA_TRY(quantise_preset(quantise_request(options)));
    return {};
  }
  if (options.quantization_group_size != 0) {
    return error("--quantization-group-size ", options.quantization_group_size, " goes with --quantization int4");
  }
  if (!options.quantization_ignore.empty()) {
    return error("--quantization-ignore ", options.quantization_ignore, " goes with --quantization int8, int4 or fp8");
  }
  return {};
}

}  // namespace

Status validate(const EngineOptions& options) {
  LAMINA_TRY(one_of("--load-format", options.load_format, {"auto", "dummy"}));
  LAMINA_TRY(one_of("--dtype", options.dtype, {"auto", "bfloat16", "float16", "half", "float32"}));
  LAMINA_TRY(validate_quantization(options));
  LAMINA_TRY(one_of("--act-quant", options.act_quant, {"on", "off"}));
  LAMINA_TRY(one_of("--kv-cache-dtype", options.kv_cache_dtype, {"auto", "bf16", "float32", "fp8_e4m3", "fp8_e5m2", "int8"}));
  if (!options.quantization_param_path.empty() && !options.kv_cache_dtype.starts_with("fp8")) {
    return error("--quantization-param-path holds scales of an FP8 cache: it goes with --kv-cache-dtype fp8_e4m3 or fp8_e5m2, which is ",
                 options.kv_cache_dtype);
  }
  LAMINA_TRY(one_of("--attention-backend", options.attention_backend, {"paged", "reference"}));
  LAMINA_TRY(in_range("--context-length", options.context_length, 0, int64_t{1} << 30));
  LAMINA_TRY(in_range("--max-running-requests", options.max_running_requests, 1, 65536));
  LAMINA_TRY(in_range("--chunked-prefill-size", options.chunked_prefill_size, 1, 65536));
  LAMINA_TRY(in_range("--page-size", options.page_size, 1, 4096));
  LAMINA_TRY(in_range("--max-total-tokens", options.max_total_tokens, 0, int64_t{1} << 40));
  LAMINA_TRY(one_of("--schedule-policy", options.schedule_policy, {"fcfs", "lpm"}));
  LAMINA_TRY(in_range("--max-queued-requests", options.max_queued_requests, 0, 1 << 20));
  LAMINA_TRY(in_range("--mixed-prefill-size", options.mixed_prefill_size, 0, 65536));
  if (!(options.schedule_conservativeness >= 0.0 && options.schedule_conservativeness <= 10.0)) {
    return error("--schedule-conservativeness ", options.schedule_conservativeness, ": allowed are 0 to 10");
  }
  LAMINA_TRY(in_range("--threads", options.threads, 0, 1024));
  LAMINA_TRY(validate_ranks(options));
  if (!(options.mem_fraction_static > 0.0 && options.mem_fraction_static <= 1.0)) {
    return error("--mem-fraction-static ", options.mem_fraction_static, ": allowed are values above 0 and up to 1");
  }
  return {};
}

}  // namespace lamina
