#include "plan/inspect_html.h"

#include "base/strings.h"

namespace lamina {
namespace {

/// JSON as the text of a script element: "<" stands in strings only, where its escape means the same.
std::string script_json(const Json& plan) {
  std::string out;
  for (const char c : plan.dump()) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string head(const std::string& title) {
  return cat("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>", escaped(title), "</title>\n<style>\n",
             kInspectStyle, "</style>\n</head>\n<body>\n");
}

/// A list of the audit, or of skipped tensors with their reasons.
std::string section(const std::string& name, const std::vector<std::string>& tensors) {
  if (tensors.empty()) return "";
  std::string out = cat("<section class=\"below\"><h2>", name, ": ", tensors.size(), "</h2>\n<ul>\n");
  for (const std::string& tensor : tensors) out += cat("<li><code>", escaped(tensor), "</code></li>\n");
  return out + "</ul></section>\n";
}

std::string refused_html(const Json& plan) {
  const std::string& model = plan.find("model")->as_string();
  const Json& audit = *plan.find("audit");
  std::string out = cat(head(model + " is refused"), "<header><h1>", escaped(model), "</h1><p class=\"sub\">",
                        escaped(plan.find("class")->as_string()), ", ", plan.find("layers")->as_integer(), " layers</p><p class=\"fault\">",
                        "This checkpoint is refused. Tensors in their places: ", audit.find("loaded")->as_integer(), "</p></header>\n");
  for (const auto& [name, names] : audit.as_object()) {
    if (!names.is_array()) continue;
    std::vector<std::string> tensors;
    for (const Json& tensor : names.as_array()) tensors.push_back(tensor.as_string());
    out += section(name, tensors);
  }
  std::vector<std::string> skipped;
  for (const Json& tensor : plan.find("skipped")->as_array()) {
    skipped.push_back(cat(tensor.find("tensor")->as_string(), ": ", tensor.find("reason")->as_string()));
  }
  return cat(out, section("skipped", skipped), "</body>\n</html>\n");
}

}  // namespace

std::string inspect_html(const Json& plan) {
  if (plan.find("refused") != nullptr) return refused_html(plan);
  const std::string title = cat(plan.find("model")->as_string(), " on ", plan.find("ranks")->as_integer(), " ranks");
  return cat(head(title), kInspectBody, "<script id=\"plan\" type=\"application/json\">", script_json(plan), "</script>\n<script>\n",
             kInspectScript, "</script>\n</body>\n</html>\n");
}

}  // namespace lamina
