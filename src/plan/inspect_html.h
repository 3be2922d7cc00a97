#pragma once
// The plan as a page to look at: `lamina inspect --html`.

#include <string>

#include "base/json.h"

namespace lamina {

/// One self-contained page (no network, no libraries; light and dark) that shows pipeline stages and their ranks as tiles, boundaries
/// between them, and what a chosen rank holds. `plan`: what inspect_json() gives. "#rank=5" after the address chooses a rank.
/// Of what refused_json() gives: the lists of its audit, without a script.
std::string inspect_html(const Json& plan);

/// The parts of the page; in inspect_page.cc and inspect_script.cc.
extern const char* const kInspectStyle;
extern const char* const kInspectBody;
extern const char* const kInspectScript;

}  // namespace lamina
