// The plan as a page of text.

#include <algorithm>

#include "base/strings.h"
#include "plan/inspect_words.h"

namespace lamina {
namespace {

using namespace inspect_words;  // of this file's own pages

void append_rank(std::string& out, const Json& rank) {
  const Json& memory = *rank.find("memory");
  out += cat("    rank ", number(rank, "rank"), ":");
  if (rank.find("heads") != nullptr) out += cat(" heads ", range(rank, "heads"));
  if (rank.find("kv_heads") != nullptr) {
    out += cat(", KV heads ", range(rank, "kv_heads"));
    if (number(rank, "kv_replicas") > 1) out += cat(" (", number(rank, "kv_replicas"), " replicas)");
  }
  for (const Json& rows : list(rank, "vocabulary")) {
    out += cat(", ", text(rows, "name"), " rows ", range(rows, "rows"));
    if (number(rows, "padding") > 0) out += cat(" + ", number(rows, "padding"), " of padding");
  }
  int64_t work = 0;
  for (const char* part : {"step", "stages", "scratch", "exchange"}) work += number(memory, part);
  out += cat(", weights ", size(memory, "weights"), ", arena ", size_string(static_cast<uint64_t>(work)), ", KV ",
             number(memory, "kv_bytes_per_token"), " bytes a token\n");
}

void append_ranks(std::string& out, const Json& plan) {
  if (!several(plan)) return;
  out += "\nranks\n";
  for (const Json& stage : list(plan, "pipeline")) {
    out += cat("  stage ", number(stage, "stage"), ": layers ", range(stage, "layers"), "\n");
    for (const Json& rank : list(plan, "rank_table")) {
      if (number(rank, "stage") == number(stage, "stage")) append_rank(out, rank);
    }
    if (const Json* over = stage.find("hands_over")) {
      out += cat("    hands the residual and the last layer's unreduced output to stage ", number(*over, "to_stage"), ": ",
                 number(*over, "wire_bytes_per_row"), " bytes a row (", number(*over, "wire_bytes_per_row_scattered"), " scattered)\n");
    }
  }
}

/// Opens the module path of `name` below the modules that are open already: one line a new module, two spaces a level.
void open_modules(std::string& out, std::vector<std::string>& open, const std::vector<std::string>& path) {
  size_t common = 0;
  while (common < open.size() && common + 1 < path.size() && open[common] == path[common]) ++common;
  open.resize(common);
  for (size_t level = common; level + 1 < path.size(); ++level) {
    out += cat(std::string(2 * level + 2, ' '), path[level], "\n");
    open.push_back(path[level]);
  }
}

void append_parameters(std::string& out, const Json& plan) {
  out += cat("\nparameters: ", number(plan, "parameter_total"), "\n");
  std::vector<std::string> open;
  for (const Json& param : list(plan, "parameters")) {
    const std::vector<std::string> path = split(text(param, "name"), '.');
    open_modules(out, open, path);
    std::vector<std::string> sources, places;
    for (const Json& source : list(param, "sources")) sources.push_back(source_text(source));
    out += cat(std::string(2 * path.size(), ' '), path.back(), "  local ", shape(*param.find("local")), " of ",
               shape(*param.find("global")), "  ", text(param, "dtype"), "  ", text(param, "rule"));
    if (several(plan)) {
      for (const Json& place : list(param, "places"))
        places.push_back(cat("stage ", number(place, "stage"), " #", number(place, "slices")));
      out += cat("  ", join(places, ", "));
    }
    out += cat("  <- ", join(sources, ", "), "\n");
  }
}

std::string slice_text(const Json& pieces) {
  std::vector<std::string> parts;
  for (const Json& piece : pieces.as_array()) {
    const std::string columns = range(piece, "cols");
    parts.push_back(cat("source ", number(piece, "source"), " rows ", range(piece, "rows"),
                        columns == "0" ? std::string() : cat(" columns ", columns)));
  }
  return parts.empty() ? "nothing" : join(parts, "; ");
}

void append_slices(std::string& out, const Json& plan) {
  if (!several(plan)) return;
  out += "\nslices of the sources, by tp rank\n";
  int64_t index = 0;
  for (const Json& table : list(plan, "slices")) {
    const Json::Array& shares = table.as_array();
    out += cat("  #", index++, "\n");
    if (shares.size() > 1 && std::equal(shares.begin() + 1, shares.end(), shares.begin())) {
      out += cat("    each: ", slice_text(shares.front()), "\n");
      continue;
    }
    for (size_t rank = 0; rank < shares.size(); ++rank) out += cat("    ", rank, ": ", slice_text(shares[rank]), "\n");
  }
}

/// `words` without the numbers of layers: boundaries that differ in nothing else are alike.
std::string without_numbers(const std::string& words) {
  std::string out;
  for (const std::string& word : split(words, ' ')) {
    const bool is_layer = !out.empty() && out.ends_with("layer ");
    out += cat(is_layer ? "#" : word, " ");
  }
  return out;
}

struct Alike {
  std::string key;
  const Json* first = nullptr;
  int64_t count = 0;
};

void append_boundaries(std::string& out, const Json& plan) {
  std::vector<Alike> groups;
  for (const Json& boundary : list(plan, "stages")) {
    std::string key = without_numbers(cat(text(boundary, "stage"), " ", text(boundary, "plan")));
    for (const Json& variant : list(boundary, "variants")) {
      key += without_numbers(cat(text(variant, "plan"), " ", number(variant, "wire_bytes_per_row")));
    }
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Alike& g) { return g.key == key; });
    if (group == groups.end()) group = groups.insert(group, {key, &boundary, 0});
    ++group->count;
  }
  out += "\nboundaries\n";
  for (const Alike& group : groups) {
    out += cat("  ", text(*group.first, "stage"));
    if (group.count > 1) out += cat(" and ", group.count - 1, " alike");
    out += cat(": ", text(*group.first, "plan"), "\n");
    if (!several(plan)) continue;
    for (const Json& variant : list(*group.first, "variants")) {
      out += cat("    ", text(variant, "variant"), ": ", text(variant, "plan"), " (", number(variant, "wire_bytes_per_row"),
                 " bytes a row between ranks)\n");
    }
  }
}

void append_accounting(std::string& out, const Json& plan) {
  const Json& sums = *plan.find("accounting");
  const auto line = [&](const char* label, const Json& amount) {
    out += cat("  ", label, ": ", number(amount, "elements"), " elements, ", number(amount, "bytes"), " bytes\n");
  };
  out += "\naccounting\n";
  line("checkpoint", *sums.find("checkpoint"));
  out += cat("  kept in wider types: ", number(sums, "widening_bytes"), " bytes\n");
  line("replicas", *sums.find("replicas"));
  line("vocabulary padding", *sums.find("vocabulary_padding"));
  out += cat("  padding of panels and lines: ", number(sums, "packing_bytes"), " bytes\n");
  line("sum, all ranks", *sums.find("ranks"));
}

void append_memory(std::string& out, const Json& plan) {
  const Json& kv = *plan.find("kv");
  const Json& memory = *plan.find("memory");
  out += cat("\nKV: ", number(kv, "kv_heads"), " heads a layer, ", number(kv, "bytes_per_token"), " bytes a token in ", text(kv, "dtype"));
  if (several(plan)) out += cat(" on rank 0; ", number(kv, "bytes_per_token_all_ranks"), " on all ranks that hold a token");
  out += cat("\nmemory: weights ", size(memory, "weights"), ", step ", size(memory, "step"), ", stages ", size(memory, "stages"),
             ", scratch ", size(memory, "scratch"), ", exchange ", size(memory, "exchange"), ", KV ", size(memory, "kv"), " (",
             number(memory, "kv_tokens"), " tokens)");
  if (several(plan)) out += cat(", of rank ", number(memory, "rank"), ", which takes most");
  out += cat("\nlargest context: ", number(memory, "largest_context"), " tokens, with ", size(memory, "available"), " for ",
             text(memory, "available_to"), "\n");
  if (const Json* fault = memory.find("fault")) out += cat("does not fit: ", fault->as_string(), "\n");
}

}  // namespace

std::string inspect_text(const Json& plan) {
  if (plan.find("refused") != nullptr) return weights_text(plan);
  std::string out = title(plan);
  append_ranks(out, plan);
  append_parameters(out, plan);
  append_slices(out, plan);
  append_skipped(out, plan);
  append_boundaries(out, plan);
  append_accounting(out, plan);
  append_memory(out, plan);
  return out;
}

}  // namespace lamina
