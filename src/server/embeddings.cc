// /v1/embeddings
#include <cmath>
#include <cstring>

#include "base/strings.h"
#include "server/generation.h"
#include "server/handlers.h"

namespace lamina::server {
namespace {

/// RFC 4648, with padding.
std::string base64(std::string_view bytes) {
  constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const std::string_view group = bytes.substr(i, 3);
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) bits = bits << 8 | (j < group.size() ? static_cast<unsigned char>(group[j]) : 0);
    for (size_t j = 0; j < 4; ++j) out += j <= group.size() ? kAlphabet[bits >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

/// The first `dimensions` values (0: all), of length 1 again.
std::vector<float> truncated(std::vector<float> values, int64_t dimensions) {
  if (dimensions <= 0 || dimensions >= static_cast<int64_t>(values.size())) return values;
  values.resize(static_cast<size_t>(dimensions));
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  const double scale = sum > 0 ? 1 / std::sqrt(sum) : 0;
  for (float& value : values) value = static_cast<float>(value * scale);
  return values;
}

class EmbeddingFormat final : public AnswerFormat {
 public:
  EmbeddingFormat(std::string model, int64_t dimensions, bool as_base64)
      : model_(std::move(model)), dimensions_(dimensions), as_base64_(as_base64) {}

  std::vector<Json> chunks(const Answer&, const EngineEvent&) override { return {}; }
  std::vector<Json> tail(const std::vector<Answer>&) override { return {}; }
  Json whole(const std::vector<Answer>& answers) override;

 private:
  Json encoded(const std::vector<float>& values) const;

  std::string model_;
  int64_t dimensions_;
  bool as_base64_;
};

/// Numbers, or the bytes of little-endian float32 in base64.
Json EmbeddingFormat::encoded(const std::vector<float>& values) const {
  if (as_base64_) {
    std::string bytes(values.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return Json(base64(bytes));
  }
  Json out = Json::array();
  for (const float value : values) out.push(Json(static_cast<double>(value)));
  return out;
}

Json EmbeddingFormat::whole(const std::vector<Answer>& answers) {
  Json data = Json::array(), usage, out;
  int64_t tokens = 0;
  for (const Answer& answer : answers) {
    Json item;
    item.set("object", "embedding");
    item.set("index", answer.index);
    item.set("embedding", encoded(truncated(answer.embedding, dimensions_)));
    data.push(std::move(item));
    tokens += static_cast<int64_t>(answer.prompt->ids.size());
  }
  usage.set("prompt_tokens", tokens);
  usage.set("total_tokens", tokens);
  out.set("object", "list");
  out.set("data", std::move(data));
  out.set("model", model_);
  out.set("usage", std::move(usage));
  return out;
}

}  // namespace

Reply embeddings(ServerContext& context, const Call& call) {
  GenerationPlan plan{.pool = true, .prompt_field = "input"};
  std::string format = "float";
  std::optional<int64_t> dimensions;
  const auto inputs = [&](const Json& v, std::string_view name) { return read_prompts(context, v, name, plan.prompts); };
  const std::vector<Field> fields = {
      {"input", inputs},
      {"model", &plan.fields.model, 0, 1024},
      {"encoding_format", &format, 0, 16},
      {"dimensions", &dimensions, 1, context.engine.config().hidden_size},
      {"cache_salt", &plan.fields.cache_salt, 0, 1024},
      {"rid", &plan.fields.id, 0, 256},
      {"user", NoEffect{}},
  };
  if (Fault fault = read_fields(call.body, fields)) return error_response(*fault);
  if (plan.prompts.empty()) return error_response(bad_field("input", "is missing or holds nothing"));
  if (format != "float" && format != "base64") {
    return error_response(bad_field("encoding_format", cat("is \"", shown_text(format), "\": it must be \"float\" or \"base64\"")));
  }
  if (Fault fault = check_model(context, plan.fields.model)) return error_response(*fault);
  if (plan.fields.id.empty()) plan.fields.id = context.new_id("embd-");
  auto shown_as = std::make_unique<EmbeddingFormat>(context.model_id, dimensions.value_or(0), format == "base64");
  Reply reply;
  if (Fault fault = start_generation(context, std::move(plan), std::move(shown_as), reply)) return error_response(*fault);
  return reply;
}

}  // namespace lamina::server
