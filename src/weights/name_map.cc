#include "weights/name_map.h"

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "base/strings.h"

namespace lamina {

namespace {

std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || text[0] == '-' || fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool component_matches(std::string_view pattern, std::string_view component) {
  if (pattern == "*") return true;
  if (pattern.empty() || pattern[0] != '#') return pattern == component;
  const std::optional<int64_t> value = number(component);
  if (!value || pattern == "#") return value.has_value();
  return *value >= number(pattern.substr(1, pattern.size() - 2)).value_or(0);
}

bool pattern_is_sound(std::string_view pattern) {
  if (pattern.empty()) return false;
  if (pattern[0] != '#' || pattern == "#") return true;
  return pattern.back() == '+' && number(pattern.substr(1, pattern.size() - 2)).has_value();
}

/// Where a run of components that matches `pattern` begins, or the end.
auto find_run(const std::vector<std::string>& name, const std::vector<std::string>& pattern) {
  return std::search(name.begin(), name.end(), pattern.begin(), pattern.end(),
                     [](const std::string& component, const std::string& p) { return component_matches(p, component); });
}

}  // namespace

NameMap::NameMap(std::vector<RenameRule> renames, std::vector<SkipRule> skips) {
  for (RenameRule& rule : renames) {
    LAMINA_CHECK(!rule.from.empty(), "a rename rule matches at least one component");
    renames_.push_back({split(rule.from, '.'), rule.to.empty() ? Path{} : split(rule.to, '.'), rule.anchored});
  }
  std::stable_sort(renames_.begin(), renames_.end(), [](const Rename& a, const Rename& b) { return a.from.size() > b.from.size(); });
  for (SkipRule& rule : skips) {
    skips_.push_back({split(rule.components, '.'), std::move(rule.reason), std::move(rule.instead)});
    LAMINA_CHECK(std::all_of(skips_.back().pattern.begin(), skips_.back().pattern.end(), pattern_is_sound), "unsound skip rule");
  }
}

std::string NameMap::rename(std::string_view tensor) const {
  const Path name = split(tensor, '.');
  Path out;
  for (size_t at = 0; at < name.size();) {
    const auto rule = std::find_if(renames_.begin(), renames_.end(), [&](const Rename& r) {
      return (at == 0 || !r.anchored) && r.from.size() <= name.size() - at &&
             std::equal(r.from.begin(), r.from.end(), name.begin() + static_cast<std::ptrdiff_t>(at));
    });
    if (rule == renames_.end()) {
      out.push_back(name[at++]);
      continue;
    }
    out.insert(out.end(), rule->to.begin(), rule->to.end());
    at += rule->from.size();
  }
  return join(out, ".");
}

std::optional<std::string> NameMap::skip_reason(std::string_view tensor, const std::function<bool(const std::string&)>& owned) const {
  const Path spellings[] = {split(tensor, '.'), split(rename(tensor), '.')};
  for (const Skip& skip : skips_) {
    for (const Path& name : spellings) {
      const auto run = find_run(name, skip.pattern);
      if (run == name.end()) continue;
      if (skip.instead.empty()) return skip.reason;
      Path other(name.begin(), run);
      other.push_back(skip.instead);
      other.insert(other.end(), run + static_cast<std::ptrdiff_t>(skip.pattern.size()), name.end());
      if (owned(join(other, "."))) return skip.reason;
    }
  }
  return std::nullopt;
}

}  // namespace lamina
