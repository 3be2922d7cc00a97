// Parameters alone, or what is wrong with a checkpoint.

#include <algorithm>

#include "plan/inspect_words.h"

namespace lamina {

namespace inspect_words {

std::string title(const Json& plan) {
  std::string out = cat(text(plan, "class"), ", ");
  if (const Json* topology = plan.find("topology")) {
    out += cat(number(plan, "ranks"), several(plan) ? " ranks" : " rank");
    if (several(plan)) out += cat(" (tp ", number(*topology, "tp_size"), " x pp ", number(*topology, "pp_size"));
    if (number(*topology, "dp_attention") > 1) {
      out += cat(", attention dp ", number(*topology, "dp_attention"), " x tp ", number(*topology, "attn_tp"));
    }
    out += several(plan) ? "), " : ", ";
  }
  return out + cat(number(plan, "layers"), " layers, context ", number(plan, "context_length"), ", ", text(plan, "dtype"),
                   plan.find("quantization") != nullptr ? cat(", ", text(plan, "quantization")) : "",
                   plan.find("tied")->as_bool() ? ", head tied to model.embed_tokens" : "", "\n");
}

void append_skipped(std::string& out, const Json& plan) {
  if (!list(plan, "skipped").empty()) out += "\nskipped tensors\n";
  for (const Json& skipped : list(plan, "skipped")) out += cat("  ", text(skipped, "tensor"), ": ", text(skipped, "reason"), "\n");
}

}  // namespace inspect_words

namespace {

using namespace inspect_words;  // of this file's own pages

/// "4096 bytes", "4096 to 4160 bytes"
std::string bytes_text(const Json& place) {
  const Json* all = place.find("rank_bytes");
  if (all == nullptr) return cat(number(place, "bytes"), " bytes");
  int64_t least = number(place, "bytes"), most = least;
  for (const Json& bytes : all->as_array()) least = std::min(least, bytes.as_integer()), most = std::max(most, bytes.as_integer());
  return cat(least, " to ", most, " bytes");
}

std::string sources_text(const Json& param) {
  std::vector<std::string> sources;
  for (const Json& source : list(param, "sources")) {
    sources.push_back(source.is_string() ? source.as_string() : cat(text(source, "tensor"), " ", text(source, "dtype")));
  }
  return join(sources, ", ");
}

void append_stage(std::string& out, const Json& plan, int64_t stage) {
  for (const Json& param : list(plan, "parameters")) {
    for (const Json& place : list(param, "places")) {
      if (number(place, "stage") != stage) continue;
      const Json& group = *param.find("group");
      out += cat("  ", text(param, "name"), "  ", text(param, "format"), "  ", group.is_null() ? "not cut" : group.as_string(), "  ",
                 bytes_text(place), "  <- ", sources_text(param), "\n");
    }
  }
}

/// Bytes of the weights of a stage's ranks: "1.25 GB", "1.25 GB to 1.26 GB".
std::string stage_bytes_text(const Json& plan, int64_t stage) {
  std::vector<int64_t> bytes;
  for (const Json& rank : list(plan, "rank_table")) {
    if (number(rank, "stage") == stage) bytes.push_back(number(*rank.find("memory"), "weights"));
  }
  const auto [least, most] = std::ranges::minmax(bytes);
  return size_string(static_cast<uint64_t>(least)) + (least == most ? "" : " to " + size_string(static_cast<uint64_t>(most)));
}

std::string refused_text(const Json& plan) {
  const Json& audit = *plan.find("audit");
  std::string out = cat(title(plan), "\nthe checkpoint is refused\n");
  for (const auto& [name, names] : audit.as_object()) {
    if (!names.is_array() || names.as_array().empty()) continue;
    out += cat("\n", name, ": ", names.as_array().size(), "\n");
    for (const Json& tensor : names.as_array()) out += cat("  ", tensor.as_string(), "\n");
  }
  append_skipped(out, plan);
  return out + cat("\nin its place: ", number(audit, "loaded"), number(audit, "loaded") == 1 ? " tensor" : " tensors", "\n");
}

}  // namespace

std::string weights_text(const Json& plan) {
  if (plan.find("refused") != nullptr) return refused_text(plan);
  std::string out = cat(title(plan), "\nname  format  cut by  bytes on a rank  <- source tensors\n");
  for (const Json& stage : list(plan, "pipeline")) {
    const int64_t number_of_stage = number(stage, "stage");
    out += cat("\nstage ", number_of_stage, ", layers ", range(stage, "layers"), ": weights ", stage_bytes_text(plan, number_of_stage),
               several(plan) ? " a rank" : "", "\n");
    append_stage(out, plan, number_of_stage);
  }
  append_skipped(out, plan);
  return out;
}

}  // namespace lamina
