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

}  // namespace

std::string inspect_html(const Json& plan) {
  const std::string& model = plan.find("model")->as_string();
  return cat("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>", escaped(model), " on ",
             plan.find("ranks")->as_integer(), " ranks</title>\n<style>\n", kInspectStyle, "</style>\n</head>\n<body>\n", kInspectBody,
             "<script id=\"plan\" type=\"application/json\">", script_json(plan), "</script>\n<script>\n", kInspectScript,
             "</script>\n</body>\n</html>\n");
}

}  // namespace lamina
